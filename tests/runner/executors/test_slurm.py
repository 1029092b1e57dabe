"""Jobs through submitit, on a Slurm of two nodes where its programs are installed."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec

import pytest

from tests.command_line import command, tread_bench, wait_for
from tests.runner.executors.ends import assert_ends_are_told, ends_of
from tests.runner.executors.slurm_here import SKIP_REASON, slurm_here
from tests.toy_suite import TWO_CELLS, results, results_here, write_suite
from tread_bench.core.errors import UserError
from tread_bench.runner.executors import slurm
from tread_bench.runner.executors.slurm import Slurm

needs_submitit = pytest.mark.skipif(not find_spec("submitit"), reason="the extra `slurm` is not installed")


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    if SKIP_REASON:
        pytest.skip(SKIP_REASON)
    with slurm_here(tmp_path_factory.mktemp("slurm")) as environment, pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        yield


@needs_submitit
@pytest.mark.endurance
def test_on_slurm_ends_are_told_alike_and_what_it_refuses_is_one_message(node, tmp_path, monkeypatch):
    monkeypatch.setattr(slurm, "GRACE_S", 2.0)  # its disk is this machine's
    monkeypatch.setattr(slurm, "QUEUE_S", 1.0)
    assert_ends_are_told(ends_of(Slurm(tmp_path / "slurm"), tmp_path), "ended without a result")
    monkeypatch.setenv("SBATCH_PARTITION", "absent")
    with pytest.raises(UserError, match=r"sbatch refused the jobs: .*partition"):
        ends_of(Slurm(tmp_path / "slurm"), tmp_path)


@needs_submitit
@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("pairs", "how"),
    [
        (0, ["scontrol", "requeue"]),
        pytest.param(2, ["scancel", "--signal=USR2"], marks=pytest.mark.endurance),  # as when its time is nearly up
    ],
    ids=["queued again", "warned"],
)
def test_a_suite_on_slurm_is_the_same_bit_for_bit_though_a_job_is_queued_again(node, tmp_path, pairs, how):
    suite, out = write_suite(tmp_path, TWO_CELLS), tmp_path / "far"
    asked = command("run", suite, "--out", out, "--executor", "slurm", "--set", f"timing.pairs={pairs}")
    far = subprocess.Popen(asked, text=True, stderr=subprocess.PIPE)
    wait_for(lambda: list(out.glob("cells/*/checkpoints/*.sha256")), seconds=200)
    running = ["squeue", "--me", "--array", "--noheader", "--states=R", "--format=%i"]
    for job in subprocess.run(running, capture_output=True, text=True).stdout.split():
        subprocess.run([*how, job], check=True)
    _, told = far.communicate(timeout=280)
    assert far.returncode == 0, told
    assert results(out) == results_here(TWO_CELLS)
    assert any("resuming from checkpoint" in path.read_text() for path in out.glob("cells/*/log"))
    assert "FAILED" not in told and "retried" not in told  # Slurm itself started it again
    queue = ["squeue", "--me", "--noheader"]  # a job ends a moment after its result is there
    wait_for(lambda: subprocess.run(queue, capture_output=True, text=True).stdout == "", seconds=60)


@needs_submitit
def test_without_slurm_there_is_one_message(tmp_path):
    done = tread_bench("run", "smoke", "--executor", "slurm", "--out", tmp_path / "r", PATH=str(tmp_path))
    assert done.returncode == 2 and "sbatch, squeue" in done.stderr and "Traceback" not in done.stderr, done.stderr
