"""What it costs to place a cell: empty ones through an executor, beside processes that are started for each.

    python benchmarks/dispatch.py [CELLS]

prints milliseconds per cell, two at a time, for `local` and `ray`, and for a bare `python` that imports what a cell
needs (20 of them). The first tasks of an executor, which start its processes, are reported apart.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tread_bench.runner.executors.local import Local
from tread_bench.runner.executors.ray import Ray
from tread_bench.runner.executors.tasks import Ended, Executor, Task

AT_ONCE, BARE = 2, 20


def seconds(executor: Executor, cells: int, folder: Path) -> float:
    """From handing over that many empty cells to their last end."""
    tasks = [Task(f"cell-{k}", "operator:add", (k, 1), folder / "log") for k in range(cells)]
    began = time.perf_counter()
    ends = [event for event in executor(tasks) if isinstance(event, Ended)]
    assert [end for end in ends if end.failure or end.value != int(end.key[5:]) + 1] == [] and len(ends) == cells
    return time.perf_counter() - began


def bare_seconds(cells: int) -> float:
    command = [sys.executable, "-c", "import tread_bench.runner.executors.preload"]
    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda _: subprocess.run(command, check=True), range(cells)))
    return time.perf_counter() - began


def main(cells: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bare = bare_seconds(BARE) / BARE
        print(f"bare process: {bare * 1e3:.1f} ms per cell ({BARE} cells)")
        for name, executor in (("local", Local(AT_ONCE)), ("ray", Ray(AT_ONCE))):
            first = seconds(executor, AT_ONCE, Path(folder))
            each = seconds(executor, cells, Path(folder)) / cells
            told = f"{name}: {each * 1e3:.1f} ms per cell ({cells} cells), {each / bare:.3f} of a bare process"
            print(f"{told}; first {AT_ONCE} cells {first:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
