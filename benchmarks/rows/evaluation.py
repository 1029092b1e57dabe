"""FID of many features, against torch-fidelity's own path: time and memory, each side in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache

import torch

from benchmarks.figure import Figure, agree
from benchmarks.peers.fid import SIDES
from benchmarks.processes import CHECKOUT, environment
from benchmarks.row import row
from benchmarks.timing import Bench, ratio

FEATURES, WIDTH = 50_000, 2048  # of FID-50k on Inception's features
PAIRS = 2
TOLERANCE = 1e-5  # torch-fidelity's mean of float32 features is a float32 sum

Found = dict[str, list[float]]


@cache
def runs(threads: int) -> dict[str, Found]:
    """What each side printed, in the order A B B A."""
    found: dict[str, Found] = {side: {} for side in SIDES}
    orders: Sequence[Sequence[str]] = [SIDES if pair % 2 == 0 else SIDES[::-1] for pair in range(PAIRS)]
    for side in (side for order in orders for side in order):
        command = [sys.executable, "-m", "benchmarks.peers.fid", side, str(FEATURES), str(WIDTH), str(threads)]
        done = subprocess.run(
            command, cwd=CHECKOUT, env=environment(threads), capture_output=True, text=True, check=True
        )
        for name, value in json.loads(done.stdout).items():
            found[side].setdefault(name, []).append(value)
    return found


def compared(bench: Bench, what: str) -> Figure:
    """Theirs over ours."""
    found = runs(bench.threads)
    theirs, ours = (found[side] for side in SIDES)
    agreement = agree([torch.tensor(ours["fid"])], [torch.tensor(theirs["fid"])], TOLERANCE)
    return ratio(theirs[what], ours[what], agreement)


@row("fid/time", required=1)
def fid_time(bench: Bench) -> Figure:
    """FID of 50,000 x 2,048 features, from batches to the distance, against torch-fidelity's own path; making the
    features is not counted.
    """
    return compared(bench, "cpu_s" if bench.threads == 1 else "wall_s")


@row("fid/memory", unit="× less", required=6)
def fid_memory(bench: Bench) -> Figure:
    """Peak memory above the imports for FID of 50,000 x 2,048 features: torch-fidelity's path, which holds all of them,
    over streaming sums, which keep none.
    """
    return compared(bench, "memory_mib")
