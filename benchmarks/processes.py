"""Other processes: where they start, and what they cost."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.row import Row
    from benchmarks.table import Result
    from benchmarks.timing import Bench

CHECKOUT = Path(__file__).parents[1]
SUBJECTS = ("training", "mixers", "evaluation", "loading", "harness", "host")  # of benchmarks.rows, in order
_forked = multiprocessing.get_context("forkserver")


def register_rows() -> None:
    """Import the modules whose functions are the rows."""
    for subject in SUBJECTS:
        import_module(f"benchmarks.rows.{subject}")


def measured_apart(row: Row, bench: Bench) -> Result:
    """`measured` in a process of its own, since a row may change how its process computes and allocates."""
    from benchmarks.table import Result, stated_of

    _forked.set_forkserver_preload([f"benchmarks.rows.{subject}" for subject in SUBJECTS])
    with ProcessPoolExecutor(1, mp_context=_forked) as pool:
        try:
            return pool.submit(_measured_by_name, row.name, bench).result()
        except BrokenProcessPool:
            return Result(**stated_of(row), status="failed", reason="its process died")


def _measured_by_name(name: str, bench: Bench) -> Result:
    import torch
    from threadpoolctl import threadpool_limits

    from benchmarks.row import ROWS
    from benchmarks.table import measured

    register_rows()
    torch.set_num_threads(bench.threads)
    threadpool_limits(bench.threads, user_api="blas")
    return measured(ROWS[name], bench)


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
