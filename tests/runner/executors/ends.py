"""How tasks end on a cluster: as on this machine."""

from __future__ import annotations

from pathlib import Path

from tread_bench.runner.executors.tasks import Ended, Executor, Task

KILL_THE_WORKER = "import os, signal; os.kill(int(os.environ['TREAD_BENCH_RUNNER']), signal.SIGKILL)"
LIMITS = {"limit": 1.0}  # seconds


def ends_of(executor: Executor, folder: Path) -> dict[str, Ended]:
    about = {
        "value": ("operator:add", 2, 3),
        "failure": ("operator:truediv", 1, 0),
        "kill": ("signal:raise_signal", 9),
        "limit": ("time:sleep", 60),
        "worker": ("builtins:exec", KILL_THE_WORKER),
    }
    tasks = []
    for key, (function, *arguments) in about.items():
        tasks.append(Task(key, function, tuple(arguments), folder / "log", limit_s=LIMITS.get(key)))
    return {event.key: event for event in executor(tasks) if isinstance(event, Ended)}


def assert_ends_are_told(ends: dict[str, Ended], lost_with_worker: str) -> None:
    assert ends["value"] == Ended("value", value=5)
    assert ends["failure"].failure == "ZeroDivisionError: division by zero" and not ends["failure"].lost
    assert "SIGKILL" in ends["kill"].failure and ends["kill"].lost
    assert "time limit" in ends["limit"].failure and not ends["limit"].lost
    assert lost_with_worker in ends["worker"].failure and ends["worker"].lost
