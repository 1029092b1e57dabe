"""tread-bench as people start it, and what of a record must not depend on what happened to its run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn

VARIABLE = (
    "timing",
    "train_seconds",
    "data_wait_seconds",
    "attempts",
)  # in a record, what another run of the cell may change


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tread_bench", *map(str, arguments)]


def tread_bench(*arguments: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run to its end, without a terminal."""
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 300, "stdin": subprocess.DEVNULL}
    return subprocess.run(command(*arguments), cwd=cwd, env={**os.environ, **environment}, **options)


def tread_bench_forked(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The same in a fork of this process, which has its imports: where the start of the command does not matter."""
    import_module(f"tread_bench.cli.{arguments[0]}")
    with TemporaryFile() as stdout, TemporaryFile() as stderr:
        if not (pid := os.fork()):
            _become(command(*arguments)[2:], cwd or Path.cwd(), stdout.fileno(), stderr.fileno())
        _, status = os.waitpid(pid, 0)
        told = [file.seek(0) or file.read().decode() for file in (stdout, stderr)]
    return subprocess.CompletedProcess(command(*arguments), os.waitstatus_to_exitcode(status), *told)


def _become(asked: list[str], cwd: Path, stdout: int, stderr: int) -> NoReturn:
    from tread_bench.cli.rim import main

    status: Any = 1
    try:
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.chdir(cwd)
        sys.argv = asked
        main()
    except SystemExit as end:
        status = end.code
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


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
    return {**kept, "evaluations": [{**e, "train_seconds": None} for e in record["evaluations"]]}
