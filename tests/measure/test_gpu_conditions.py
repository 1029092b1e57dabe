from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from tread_bench.core.stored.records import GpuConditions
from tread_bench.measure.speed.gpu_conditions import THROTTLE_REASONS, gpu_reader, nvml_problem, read_gpu
from tread_bench.regression.compare import SLOWDOWNS

UUID = "GPU-11111111-2222-3333-4444-555555555555"
BITS = {name: 1 << k for k, name in enumerate(THROTTLE_REASONS.values())}


class NVMLError(Exception):
    pass


def answering(**replaced):
    """A module like NVIDIA's, of one GPU; an answer that is an exception is raised."""
    answers = {
        "nvmlInit": None,
        "nvmlDeviceGetClockInfo": 1980,
        "nvmlDeviceGetCurrentClocksThrottleReasons": BITS["SwPowerCap"] | BITS["HwThermalSlowdown"],
        "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=pid) for pid in (7, 7, 90)],
        **replaced,
    }
    module = ModuleType("pynvml")
    module.NVMLError, module.NVML_CLOCK_SM = NVMLError, "sm"
    for name, bit in BITS.items():
        setattr(module, f"nvmlClocksThrottleReason{name}", bit)
    for name, answer in answers.items():
        setattr(module, name, Mock(side_effect=answer if isinstance(answer, Exception) else None, return_value=answer))
    unknown = Mock(side_effect=NVMLError("Not Found"))
    module.nvmlDeviceGetHandleByUUID = lambda uuid: "handle" if uuid == UUID else unknown()
    return module


@pytest.fixture
def nvml(monkeypatch):
    return lambda **replaced: monkeypatch.setitem(sys.modules, "pynvml", answering(**replaced))


def test_a_reading_holds_what_nvml_says_in_the_units_of_the_record(nvml):
    nvml()
    assert read_gpu(UUID) == GpuConditions(
        sm_clock_mhz=1980,
        throttle_reasons=["software power cap", "hardware thermal slowdown"],
        other_processes=1,
    )


def test_what_a_device_does_not_tell_is_unknown_and_without_processes_it_has_no_others(nvml):
    refused = NVMLError("Not Supported")
    nvml(nvmlDeviceGetCurrentClocksThrottleReasons=refused, nvmlDeviceGetComputeRunningProcesses=[])
    found = read_gpu(UUID)
    assert found.throttle_reasons is None and found.sm_clock_mhz == 1980
    assert found.other_processes == 0  # a container hides them
    assert read_gpu("GPU-of-a-slice") is None


def test_without_nvml_the_reason_is_told_and_nothing_is_read(nvml, monkeypatch):
    nvml(nvmlInit=NVMLError("Driver Not Loaded"))
    assert nvml_problem() == "NVML does not start: Driver Not Loaded"
    assert gpu_reader(torch.device("cuda"))() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install 'tread-bench[gpu]'" in nvml_problem()
    assert gpu_reader(torch.device("cuda"))() is None


def test_the_gpu_is_found_by_its_uuid_whatever_its_number(nvml, monkeypatch):
    nvml()
    properties = SimpleNamespace(uuid=UUID.removeprefix("GPU-"))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert gpu_reader(torch.device("cuda"))() == read_gpu(UUID)
    assert gpu_reader(torch.device("cpu"))() is None


def test_names_of_throttle_reasons_are_those_of_the_library_and_of_the_rule():
    pynvml = pytest.importorskip("pynvml")
    assert all(hasattr(pynvml, f"nvmlClocksThrottleReason{bit}") for bit in THROTTLE_REASONS.values())
    assert set(SLOWDOWNS) <= set(THROTTLE_REASONS)


@pytest.mark.gpu
def test_a_real_gpu_tells_its_clocks():
    if problem := nvml_problem():
        pytest.skip(problem)
    torch.ones(8, device="cuda").sum().item()
    found = gpu_reader(torch.device("cuda"))()
    assert found is not None
    assert found.sm_clock_mhz > 0
    assert found.other_processes is None or found.other_processes >= 0
