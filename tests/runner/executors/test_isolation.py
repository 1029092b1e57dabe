"""No process of a run executes a file of the working directory, which may be somebody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runner.executors.slurm_here import SKIP_REASON, slurm_here
from tests.toy_suite import FEW_SAMPLES, OF_TWO_RANKS, toy_suite, write_suite

NAMES = ("numpy", "ruamel", "selectors", "signal", "sitecustomize", "socket", "struct", "torch", "tread_bench")
PLANTED = "import pathlib; pathlib.Path(__file__).with_suffix('.executed').touch()"
START = """
import sys
from pathlib import Path

from tread_bench.runner.executors.ray import Ray
from tread_bench.runner.executors.slurm import Slurm
from tread_bench.runner.executors.tasks import Ended, Task

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    task = Task("sum", "operator:add", (2, 3), folder / "log")
    (end,) = [event for event in {executor}([task]) if isinstance(event, Ended)]
    assert end.value == 5, end
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with modules that are called as those that processes import first."""
    folder = tmp_path / "planted"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(PLANTED)
    return folder


def executed(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.executed"))


def assert_nothing_executed(executor: str, planted: Path, folder: Path, **environment: str) -> None:
    """Have it start a task."""
    (folder / "script").mkdir()
    script = folder / "script" / "start.py"
    script.write_text(START.replace("{executor}", executor))
    told = folder / "told"  # a pipe would stay open for as long as anything that the script started
    with told.open("w") as stream:
        about = {"cwd": planted, "env": {**os.environ, **environment}, "stdout": stream, "stderr": stream}
        done = subprocess.run([sys.executable, script, folder], **about, timeout=240)
    assert (done.returncode, executed(planted)) == (0, []), told.read_text()


@pytest.mark.full
def test_no_worker_of_ray_executes_it(planted: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    own_cluster = {"RAY_ADDRESS": "local"}  # not that of a test beside this one, which Ray would find by its file
    assert_nothing_executed("Ray()", planted, tmp_path, **own_cluster)


@pytest.mark.full
@pytest.mark.skipif(bool(SKIP_REASON), reason=SKIP_REASON)
def test_no_job_of_slurm_executes_it(planted: Path, tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="the extra `slurm` is not installed")
    (tmp_path / "here").mkdir()
    with slurm_here(tmp_path / "here") as environment:
        assert_nothing_executed('Slurm(folder / "slurm")', planted, tmp_path, **environment)


@pytest.mark.full
def test_no_command_executes_it_and_no_cell_of_two_processes(planted: Path) -> None:
    write_suite(planted, toy_suite(2, 2, seeds=1, metrics=FEW_SAMPLES, pairs=0))
    program = Path(sys.executable).with_name("tread-bench")
    for command in (["plan"], ["run", "--out", "run", "--device", "cpu", *OF_TWO_RANKS]):
        typed = [program, command[0], "toy.yaml", *command[1:]]
        done = subprocess.run(typed, cwd=planted, capture_output=True, text=True)
        assert (done.returncode, executed(planted)) == (0, []), done.stderr
