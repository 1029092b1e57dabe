"""Ray on one machine."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.command_line import command, tread_bench, wait_for
from tests.runner.executors.ends import assert_ends_are_told, ends_of
from tests.toy_suite import TWO_CELLS, results, results_here, write_suite
from tread_bench.core.errors import UserError
from tread_bench.runner.executors import ray as ray_executor
from tread_bench.runner.executors.ray import Ray
from tread_bench.runner.executors.tasks import Task
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.heartbeat import read_progress


@pytest.fixture(scope="module", autouse=True)
def own_cluster():
    """One of this machine, not that of a test beside this one, which Ray would find by its file."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_ADDRESS", "local")
        yield


def in_training(out: Path) -> psutil.Process | None:
    """The process of a cell that has written a checkpoint and has not ended."""
    begun = {path.parts[-3] for path in out.glob("cells/*/checkpoints/*.sha256")}
    left = [cell for cell in begun if RunFolder(out).record(cell) is None]
    return psutil.Process(read_progress(RunFolder(out), left[0]).pid) if left else None


@pytest.mark.full
def test_ends_are_told_as_the_local_executor_tells_them(tmp_path):
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    try:
        assert_ends_are_told(ends_of(Ray(), tmp_path), "WorkerCrashedError")
    finally:
        ray.shutdown()


def test_what_no_node_has_room_for_is_refused():
    nodes = [{"CPU": 2.0}, {"CPU": 1.0, "GPU": 1.0}]
    task = Task("a", "operator:add", (), Path("log"))
    for cpus, gpus in ((2, 0), (1, 1)):
        ray_executor._check_room([replace(task, cpus=cpus, gpus=gpus)], nodes)
    for cpus, gpus in ((3, 0), (2, 1), (1, 2)):
        with pytest.raises(UserError, match=f"{cpus} CPUs and {gpus} GPUs .* no node of the cluster has both"):
            ray_executor._check_room([task, replace(task, cpus=cpus, gpus=gpus)], nodes)


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_a_worker_killed_in_the_middle_loses_no_cell_and_changes_no_bit(tmp_path):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    suite = write_suite(tmp_path, TWO_CELLS)
    asked = command("run", suite, "--out", tmp_path / "ray", "--executor", "ray")
    far = subprocess.Popen(asked, text=True, stderr=subprocess.PIPE)
    cell = wait_for(lambda: in_training(tmp_path / "ray"), seconds=200)
    _server, worker, *_ = cell.parents()
    worker.kill()
    _, told = far.communicate(timeout=250)
    assert far.returncode == 0, told
    assert "it will be retried" in told and "lost cells again" in told
    assert results(tmp_path / "ray") == results_here(TWO_CELLS)


@pytest.mark.full
def test_a_cluster_that_does_not_answer_is_one_message(tmp_path):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    done = tread_bench("run", "smoke", "--executor", "ray", "--out", tmp_path / "r", RAY_ADDRESS="127.0.0.1:1")
    assert done.returncode == 2 and "RAY_ADDRESS" in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("nodes", "has_some"), [([{"CPU": 8.0}, {"CPU": 8.0, "GPU": 2.0}], True), ([{"CPU": 8.0}], False)]
)
def test_gpus_are_those_of_the_nodes_that_are_alive(nodes, has_some, monkeypatch):
    found = [{"Alive": True, "Resources": resources} for resources in nodes]
    gone = {"Alive": False, "Resources": {"GPU": 8.0}}
    monkeypatch.setattr(ray_executor, "_connected", lambda: SimpleNamespace(nodes=lambda: [*found, gone]))
    assert Ray().may_have_gpus() is has_some
