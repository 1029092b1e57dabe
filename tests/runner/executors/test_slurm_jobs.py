"""What is concluded from what Slurm says, with programs in its place that say what is wanted."""

from __future__ import annotations

import os
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from tread_bench.runner.executors import slurm
from tread_bench.runner.executors.slurm import Slurm
from tread_bench.runner.executors.tasks import Ended


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Write programs of Slurm's names; each notes how it was called in `calls`."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()

    def write(**bodies: str) -> Path:
        for name, body in bodies.items():
            path = tmp_path / "bin" / name
            path.write_text(f"#!/bin/sh\necho {name} $@ >> {tmp_path}/calls\n{body}\n")
            path.chmod(0o755)
        return tmp_path / "calls"

    return write


@pytest.fixture
def jobs(tmp_path):
    return slurm._Jobs(Slurm(tmp_path), SimpleNamespace())


def job(tmp_path, key: str = "7_0", ended: Ended | None = None) -> slurm._Job:
    result = tmp_path / f"{key}_result.pkl"
    if ended is not None:
        result.touch()
    paths = SimpleNamespace(result_pickle=result, stdout=tmp_path / "log")
    of_first_node = SimpleNamespace(paths=paths, exception=lambda: None, result=lambda: ended)
    submitted = SimpleNamespace(job_id=key, task=[of_first_node].__getitem__)
    return slurm._Job(key, submitted, time.monotonic())


def test_a_controller_that_does_not_answer_has_lost_nothing(programs, jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(slurm, "GRACE_S", 0)
    programs(squeue="exit 1")
    one = job(tmp_path)
    assert jobs.ended(one) is None and one.gone is None
    programs(squeue="echo 7_1")
    jobs.asked_at = -float("inf")
    assert jobs.ended(one).lost


def test_a_result_that_tells_of_a_loss_counts_when_slurm_will_not_start_the_job_again(programs, jobs, tmp_path):
    lost = Ended("7_0", failure="the process was killed by SIGTERM", lost=True)
    one = job(tmp_path, ended=lost)
    programs(squeue="echo 7_0")  # queued again
    assert jobs.ended(one) is None
    programs(squeue="exit 0")
    jobs.asked_at = -float("inf")
    assert jobs.ended(one) == lost


def test_a_good_result_counts_at_once_without_asking(programs, jobs, tmp_path):
    calls = programs(squeue="exit 1")
    good = Ended("7_0", value=5)
    assert jobs.ended(job(tmp_path, ended=good)) == good and not calls.exists()


def test_one_call_cancels_all_arrays_though_it_fails(programs, jobs, tmp_path):
    calls = programs(scancel="exit 1")
    jobs.cancel([job(tmp_path, key) for key in ("7_0", "7_1", "9_0", "12")])
    assert calls.read_text().split() == ["scancel", "12", "7", "9"]
    jobs.cancel([])
    assert calls.read_text().count("scancel") == 1


@pytest.mark.skipif(not find_spec("submitit"), reason="the extra `slurm` is not installed")
@pytest.mark.parametrize(("partition", "has_some"), [("", False), ("gpus", True), ("cpus", False), ("cpus,gpus", True)])
def test_gpus_are_those_of_the_partition_that_the_jobs_go_to(programs, partition, has_some, tmp_path, monkeypatch):
    said = "echo 'cpus* (null)'\necho 'gpus (null)'\necho 'gpus gpu:h100:8'"
    programs(sbatch=said, squeue=said, scancel=said, sinfo=said)
    monkeypatch.setenv("SBATCH_PARTITION", partition)
    assert Slurm(tmp_path / "jobs").may_have_gpus() is has_some
