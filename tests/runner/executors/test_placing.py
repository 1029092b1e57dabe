"""Who gets which GPUs, and which cells come first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tread_bench.core.errors import UserError
from tread_bench.core.numbers.costs import expected_work
from tread_bench.core.stored.conditions import RunNumerics
from tread_bench.runner.executors.local import Gpus, Local
from tread_bench.runner.executors.tasks import Ended, Task
from tread_bench.runner.runner import placed
from tread_bench.suite.load import find_suite, load_plan


def test_no_gpu_is_shared_by_more_than_must_be_and_the_least_used_comes_first():
    place = Gpus(["a", "b"], workers=3)  # two of three share one
    assert [place.take(1) for _ in range(5)] == [("a",), ("b",), ("a",), ("b",), None]
    place.give_back(("b",))
    assert place.take(2) is None and place.take(1) == ("b",)
    assert [Gpus(["a", "b"], workers=2).take(count) for count in (2, 3)] == [("a", "b"), None]
    assert Gpus(["a", "b"], workers=1).free == {"a": 1, "b": 1}


def seen(tmp_path: Path, executor: Local, gpus: int, tasks: int) -> list[str]:
    """CUDA_VISIBLE_DEVICES of every task."""
    asked = [Task(str(k), "os:getenv", ("CUDA_VISIBLE_DEVICES",), tmp_path / "log", gpus=gpus) for k in range(tasks)]
    return [event.value for event in executor(asked) if isinstance(event, Ended)]


def test_a_task_sees_as_many_gpus_as_it_asks_for_and_no_other_s(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    together = seen(tmp_path, Local(2, gpus=4), 2, 2)
    assert sorted(name for one in together for name in one.split(",")) == ["0", "1", "2", "3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b,GPU-d")
    assert sorted(seen(tmp_path, Local(2, gpus=2), 1, 2)) == ["GPU-b", "GPU-d"]


def test_more_gpus_than_there_are_is_one_message(tmp_path):
    with pytest.raises(UserError, match=r"limits: a cell requests 3 GPUs .* and this machine has 2"):
        list(Local(4, gpus=2)([Task("a", "os:getpid", (), tmp_path / "log", gpus=3)]))


def test_workers_are_as_many_as_gpus_or_as_threads_allow():
    cpus = len(os.sched_getaffinity(0))
    assert Local().sized(RunNumerics(device="cuda", device_count=3, threads=1), 1).workers == 3
    assert Local().sized(RunNumerics(device="cpu", device_count=1, threads=1), 1).workers == cpus
    assert Local().sized(RunNumerics(device="cpu", device_count=1, threads=10 * cpus), 1).workers == 1
    assert Local(7).sized(RunNumerics(device="cuda", device_count=3, threads=1), 1) == Local(7, gpus=3)


def test_what_computes_most_is_placed_first_and_sources_before_what_reads_them():
    cells = load_plan(find_suite("guidance"), []).cells
    first, second = placed(cells)
    assert {cell.id for cell in (*first, *second)} == {cell.id for cell in cells}
    assert all(not cell.sources for cell in first) and all(cell.sources for cell in second)
    for wave in (first, second):
        macs = [sum(expected_work(cell.cell)) for cell in wave]
        assert macs == sorted(macs, reverse=True)
