"""Which formulation is taken where, and why one is refused."""

from __future__ import annotations

import pytest

from tread_bench.cell import kernels
from tread_bench.cell.kernels import missing, resolve_kernels


def installed(monkeypatch, *modules):
    monkeypatch.setattr(kernels, "find_spec", lambda name: name if name in modules else None)


@pytest.mark.parametrize(
    ("device", "modules", "taken"),
    [
        ("cpu", ("numba", "triton", "selective_scan_cuda"), ("math", "numba", "numba", "numba", "numba")),
        ("cpu", (), ("math", "torch", "torch", "torch", "torch")),
        ("cuda", ("numba", "triton", "selective_scan_cuda"), ("sdpa", "torch", "mamba_ssm", "triton", "torch")),
        ("cuda", ("numba",), ("sdpa", "torch", "torch", "torch", "torch")),
    ],
)
def test_the_fastest_that_is_installed_is_taken(device, modules, taken, monkeypatch):
    installed(monkeypatch, *modules)
    kinds = ("attention", "adaln", "scan", "wkv", "recurrence")
    assert resolve_kernels({}, device) == dict(zip(kinds, taken, strict=True))


def test_why_a_kernel_is_missing(monkeypatch):
    installed(monkeypatch)
    assert missing("numba", "cuda") == "needs a CPU"
    assert missing("numba", "cpu") == "module numba is not installed"
    assert missing("mamba_ssm", "cpu") == missing("triton", "cpu") == "needs a CUDA device"
    assert missing("mamba_ssm", "cuda") == "module selective_scan_cuda is not installed"
    assert all(missing("torch", device) is None for device in ("cpu", "cuda"))


def test_nothing_falls_back_once_a_name_was_asked_for(monkeypatch):
    installed(monkeypatch)
    with pytest.raises(ValueError, match=r"kernels\.scan: numba cannot be used here: module numba is not installed"):
        resolve_kernels({"scan": "numba"}, "cpu")
    with pytest.raises(ValueError, match=r"kernels\.wkv: numba cannot be used here: needs a CPU; choose auto"):
        resolve_kernels({"wkv": "numba"}, "cuda")
    installed(monkeypatch, "triton")
    assert resolve_kernels({"wkv": "triton"}, "cuda")["wkv"] == "triton"
