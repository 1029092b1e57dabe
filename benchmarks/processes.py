"""Other processes: where they start, and what they cost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def environment(threads: int) -> dict[str, str]:
    """This process's, with that many threads."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}


def tread_bench(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tread_bench", *map(str, arguments)]


def cpu_seconds(command: list[str]) -> float:
    """User and system time of a command that succeeds, with its children that ended.

    Raises:
        CalledProcessError: it fails, with what it printed.
    """
    _, seconds = _run(command)
    return seconds


def wall_seconds(command: list[str]) -> float:
    """From its start to its end."""
    seconds, _ = _run(command)
    return seconds


def _run(command: list[str]) -> tuple[float, float]:
    began, children = time.perf_counter(), os.times()
    subprocess.run(command, env=environment(1), capture_output=True, text=True, check=True)
    now = os.times()
    cpu = now.children_user + now.children_system - children.children_user - children.children_system
    return time.perf_counter() - began, cpu
