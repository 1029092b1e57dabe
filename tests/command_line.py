"""tread-bench as people start it, and what of a record must not depend on what happened to its run."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.robustness.warm import Warm

VARIABLE = (
    "timing",
    "train_seconds",
    "data_wait_seconds",
    "equal_time",
    "at_equal_time",
)  # in a record, what another run of the cell may change


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tread_bench", *_on_cpu(arguments)]


def _on_cpu(arguments: tuple[object, ...]) -> list[str]:
    """Runs compute on the CPU, whose figures are compared bit for bit, unless a test names a device."""
    typed = [str(one) for one in arguments]
    return [*typed, "--device", "cpu"] if typed[:1] == ["run"] and "--device" not in typed else typed


def tread_bench(*arguments: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run to its end, without a terminal; in a fork of a process that has its imports, which saves seconds."""
    with TemporaryDirectory() as folder:
        about = {"limit_s": 300, "streams": Path(folder) / "told", "environment": environment}
        try:
            ended = _warm()(*_on_cpu(arguments), cwd=cwd or Path.cwd(), **about)
        except BaseException:  # the test's own time limit, say: the answer to this command is not that to the next one
            _warm().process.kill()
            end_what_is_warm()
            raise
    return subprocess.CompletedProcess(command(*arguments), ended.status, ended.stdout, ended.stderr)


def tread_bench_anew(
    *arguments: object, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own: where its start matters, or the server that cells are forked from."""
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 300, "stdin": subprocess.DEVNULL}
    return subprocess.run(command(*arguments), cwd=cwd, env={**os.environ, **environment}, **options)


@cache
def _warm() -> Warm:
    return Warm(with_torch=True)


def end_what_is_warm() -> None:
    """End the process that forks, if one was needed."""
    if _warm.cache_info().currsize:
        _warm().close()
        _warm.cache_clear()


def cpu_seconds() -> float:
    """Of all processes that have been waited for: how long they take on the clock depends on their neighbours."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def hear_signals() -> None:
    """For a process that is about to start: shells and `nohup` let what they start in the background ignore some."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def wait_for(condition, seconds: float = 120):
    """The first true value of `condition()`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError("waited in vain")


def figures(record: dict[str, Any]) -> dict[str, Any]:
    """All of a record that a break, a neighbour or another day must not change."""
    kept = {key: value for key, value in record.items() if key not in VARIABLE}
    return {**kept, "evaluations": [{**e, "train_seconds": None, "seconds": None} for e in record["evaluations"]]}
