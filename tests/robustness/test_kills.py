"""`kill -9` at random instants, over a runner, the server that it forks from, and its cells."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from real import Real

from tests.command_line import figures
from tests.toy_suite import FEW_SAMPLES, toy_suite, write_suite
from tread_bench.core.stored.files import TEMPORARIES, temporaries
from tread_bench.runner.folder import RunFolder

KILLS, RUNNER_KILLS, SERVER_KILLS, INSIDE = 200, 30, 5, 50
SUITE = toy_suite(
    iterations=80,
    checkpoint_every=1,
    at="40, ",
    seeds=3,
    hidden=64,
    batch=4,
    metrics=FEW_SAMPLES,
    more="limits: {retries: 1000}\n",
)


def read_figures(record: Path) -> dict[str, object]:
    return figures(json.loads(record.read_text()))


def state(pid: int) -> str:
    """The letter that the kernel has for it; Z for one that is gone, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def wait_until(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(0.002)
    return holds


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: state(pid) == "Z", 10)


@dataclass
class Fate:
    """When a cell's process dies: at an instant, or a moment into the n-th checkpoint that it is seen to write."""

    instant: float
    writes_left: int
    seen: set[str] = field(default_factory=set)

    @classmethod
    def draw(cls, rng: random.Random, first_checkpoint_s: float) -> Fate:
        if rng.random() < 0.5:
            return cls(float("inf"), rng.randint(2, 5))
        return cls(time.monotonic() + rng.uniform(0, 2 * first_checkpoint_s), 10**9)

    def has_come(self, checkpoints: Path) -> bool:
        new = set(half_written(checkpoints)) - self.seen
        self.seen |= new
        self.writes_left -= len(new)
        return self.writes_left <= 0 or time.monotonic() > self.instant


def half_written(checkpoints: Path) -> list[str]:
    try:
        return [name for name in os.listdir(checkpoints) if TEMPORARIES.fullmatch(name)]
    except FileNotFoundError:
        return []


class Life(Real):
    """One start of the runner."""

    def __init__(self, suite: Path, out: Path) -> None:
        super().__init__("run", suite, "--out", out, "--workers", 2, cwd=out.parent)
        self.fates: dict[int, Fate] = {}

    def server(self) -> int | None:
        """The process that cells are forked from, once there is a cell."""
        return next((pid for pid in children(self.process.pid) if children(pid)), None)

    def cells(self) -> dict[int, Path]:
        """Processes of cells that have opened their log, and the folders of their checkpoints."""
        found = {}
        for pid in children(self.server() or 0):
            try:
                log = Path(os.readlink(f"/proc/{pid}/fd/1"))
            except (FileNotFoundError, ProcessLookupError):
                continue
            if log.name == "log":
                found[pid] = log.parent / "checkpoints"
        return found


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


class Killer:
    """Kills until there were enough, and keeps count.

    Args:
        runner_s, cell_s: until the first checkpoint of a run, and of a cell, that nobody disturbs.
    """

    def __init__(self, seed: int, runner_s: float, cell_s: float) -> None:
        self.rng, self.runner_s, self.cell_s = random.Random(seed), runner_s, cell_s
        self.kills: Counter[str] = Counter()
        self.inside = self.orphans = 0
        self.longest_s = 0.0  # that a process was left of a runner that had ended

    @property
    def has_enough(self) -> bool:
        return self.kills.total() >= KILLS

    def attend(self, life: Life) -> None:
        """Until the runner has ended, by itself or not."""
        is_last = self.kills["runner"] >= RUNNER_KILLS
        death = float("inf") if is_last else time.monotonic() + self.rng.uniform(0, 2 * self.runner_s)
        server_dies = self.rng.random() < 0.3 and self.kills["server"] < SERVER_KILLS
        while life.process.poll() is None:
            time.sleep(0.002)
            if self.has_enough:
                life.process.wait()
            elif time.monotonic() > death:
                self.end(life, "runner", life.process.pid)
            elif server_dies and life.cells() and self.rng.random() < 0.002:
                server_dies = False
                self.end(life, "server", life.server())
            else:
                self.visit_cells(life)
        died = time.monotonic()
        self.orphans += len(life.orphans())
        self.longest_s = max(self.longest_s, time.monotonic() - died)

    def visit_cells(self, life: Life) -> None:
        for pid, checkpoints in life.cells().items():
            fate = life.fates.setdefault(pid, Fate.draw(self.rng, self.cell_s))
            if fate.has_come(checkpoints):
                time.sleep(self.rng.uniform(0, 0.004) if fate.writes_left <= 0 else 0)
                self.end(life, "cell", pid)

    def end(self, life: Life, what: str, pid: int | None) -> None:
        """`kill -9`, and look whether that left half a checkpoint."""
        cells = life.cells()
        if pid is None or state(pid) == "Z":
            return
        kill(pid)
        died = [pid] if what == "cell" else list(cells)
        wait_until(lambda: all(state(cell) == "Z" for cell in died), 10)
        self.kills[what] += 1
        self.inside += any(half_written(cells[cell]) for cell in died if cell in cells)


def finished(out: Path) -> dict[Path, bytes]:
    """Outcomes and records that are there."""
    names = ("outcome.json", "record.json")
    return {path: path.read_bytes() for path in out.glob("cells/*/*.json") if path.name in names}


def lost(before: dict[Path, bytes], now: dict[Path, bytes]) -> list[Path]:
    return [path for path, content in before.items() if now.get(path) != content]


@pytest.mark.endurance
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_200_kills_lose_nothing_change_nothing_and_leave_nobody(tmp_path):
    suite = write_suite(tmp_path, SUITE)
    undisturbed, began = tmp_path / "undisturbed", time.monotonic()
    with Life(suite, undisturbed) as life:
        assert wait_until(lambda: any(undisturbed.glob("cells/*/attempts.json")), 120)
        cell_began = time.monotonic()
        assert wait_until(lambda: any(undisturbed.glob("cells/*/checkpoints/*.sha256")), 120)
        killer = Killer(0, runner_s=time.monotonic() - began, cell_s=time.monotonic() - cell_began)
        assert life.process.wait() == 0
    expected = {path.parent.name: read_figures(path) for path in undisturbed.glob("cells/*/record.json")}
    assert len(expected) == 6

    folders = lost_cells = changed_cells = 0
    while not killer.has_enough:
        out, before, status = tmp_path / f"disturbed-{folders}", {}, None
        folders += 1
        while status != 0:
            with Life(suite, out) as life:
                killer.attend(life)
            status = life.process.returncode
            assert status in (0, -signal.SIGKILL)
            now = finished(out)
            lost_cells += len(lost(before, now))
            before = now
        results = {path.parent.name: read_figures(path) for path in out.glob("cells/*/record.json")}
        changed_cells += sum(results.get(cell) != expected[cell] for cell in expected)
        RunFolder(out).remove(RunFolder(out).removable())
        assert not temporaries(out)

    kills = ", ".join(f"{count} {what}" for what, count in sorted(killer.kills.items()))
    print(
        f"kill -9: {killer.kills.total()} ({kills}), {killer.inside} of them inside checkpoint writing, over {folders} "
        f"runs of {len(expected)} cells: {lost_cells} finished cells lost, {changed_cells} results changed, "
        f"{killer.orphans} orphans (all gone after {killer.longest_s:.1f} s); {time.monotonic() - began:.0f} s"
    )
    assert killer.inside >= INSIDE
    assert (lost_cells, changed_cells, killer.orphans) == (0, 0, 0)
