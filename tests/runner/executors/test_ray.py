"""Ray on one machine, with a head and two nodes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.command_line import command, tread_bench, wait_for
from tests.toy_suite import TWO_CELLS, results, results_here, write_suite
from tread_bench.core.errors import UserError
from tread_bench.runner.executors import ray as ray_executor
from tread_bench.runner.executors.ray import Ray
from tread_bench.runner.executors.tasks import Ended, Task
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.heartbeat import read_progress

# A node that is gone is noticed after two seconds, not after the quarter of a minute of a cluster of many machines.
IMPATIENT = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 2,
}


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": IMPATIENT}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            cluster.nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
            patched.setenv("RAY_ADDRESS", cluster.address)
            yield cluster
        finally:
            cluster.shutdown()


def in_training(out: Path) -> psutil.Process | None:
    """The process of a cell that has written a checkpoint and has not ended."""
    begun = {path.parts[-3] for path in out.glob("cells/*/checkpoints/*.sha256")}
    left = [cell for cell in begun if RunFolder(out).record(cell) is None]
    return psutil.Process(read_progress(RunFolder(out), left[0]).pid) if left else None


def node_of(process: psutil.Process, nodes):
    above = {parent.pid for parent in process.parents()}
    return next(node for node in nodes if node.all_processes["raylet"][0].process.pid in above)


@pytest.mark.full
def test_ends_are_told_as_the_local_executor_tells_them(cluster, tmp_path):
    import ray

    def task(key: str, function: str, *arguments: object, **about: object) -> Task:
        return Task(key, function, arguments, tmp_path / "log", **about)

    tasks = [
        task("value", "operator:add", 2, 3),
        task("failure", "operator:truediv", 1, 0),
        task("kill", "signal:raise_signal", 9),
        task("limit", "time:sleep", 60, limit_s=1.0),
        task(
            "node", "builtins:exec", "import os, signal; os.kill(int(os.environ['TREAD_BENCH_RUNNER']), signal.SIGKILL)"
        ),
    ]
    try:
        ends = {event.key: event for event in Ray()(tasks) if isinstance(event, Ended)}
        with pytest.raises(UserError, match=r"2 GPUs .* no node of the cluster has both"):
            list(Ray()([task("gpus", "operator:add", 2, 3, gpus=2)]))
    finally:
        ray.shutdown()
    assert ends["value"] == Ended("value", value=5)
    assert ends["failure"].failure == "ZeroDivisionError: division by zero" and not ends["failure"].lost
    assert "SIGKILL" in ends["kill"].failure and ends["kill"].lost
    assert "time limit" in ends["limit"].failure and not ends["limit"].lost
    assert "WorkerCrashedError" in ends["node"].failure and ends["node"].lost


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_a_node_killed_in_the_middle_loses_no_cell_and_changes_no_bit(cluster, tmp_path):
    """The last of the cluster's tests: it has a node less afterwards."""
    suite = write_suite(tmp_path, TWO_CELLS)
    far = subprocess.Popen(
        command("run", suite, "--out", tmp_path / "ray", "--executor", "ray"), text=True, stderr=subprocess.PIPE
    )
    cell = wait_for(lambda: in_training(tmp_path / "ray"), seconds=200)
    cluster.remove_node(node_of(cell, cluster.nodes), allow_graceful=False)
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
    ("nodes", "has_some"),
    [
        ([{"CPU": 8.0}, {"CPU": 8.0, "GPU": 2.0}], True),
        ([{"CPU": 8.0}], False),
        ([], False),
    ],
)
def test_gpus_are_those_of_the_nodes_that_are_alive(nodes, has_some, monkeypatch):
    found = [{"Alive": True, "Resources": resources} for resources in nodes]
    gone = {"Alive": False, "Resources": {"GPU": 8.0}}
    monkeypatch.setattr(ray_executor, "_connected", lambda: SimpleNamespace(nodes=lambda: [*found, gone]))
    assert Ray().may_have_gpus() is has_some
