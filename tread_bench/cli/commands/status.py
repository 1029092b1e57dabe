"""The command `status`: the state of a run, from its folder alone: what is done, what runs where, what was lost."""

from __future__ import annotations

import json
import platform
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import typer

from tread_bench.cli.options import JsonOption, RunArgument
from tread_bench.core.errors import UserError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tread_bench.core.stored.documents import RunPlan
    from tread_bench.runner.folder import RunFolder
    from tread_bench.runner.heartbeat import Progress

State = Literal["running", "lost", "waiting", "trained", "done", "failed", "skipped", "unreadable"]
LOST = "its process ended before it had a record; the cell's log may say why"
HEARD_S = 600.0  # since the last report of a cell elsewhere, whose lock may not be visible here
SILENT_S = 60.0  # without a report, after which a running cell is called silent
COLOURS = {"failed": "red", "lost": "yellow", "unreadable": "red", "running": "cyan", "done": "green"}


@dataclass(frozen=True, slots=True)
class CellStatus:
    """One cell: `lost` was interrupted and will resume, `trained` waits for the speed and memory of its row."""

    cell: str
    row: str
    seed: int
    state: State
    reason: str = ""  # of a failure or a loss
    progress: Progress | None = None  # of the latest attempt, unless the cell has ended
    silent_s: float | None = None  # of a running cell: since its last report

    @property
    def name(self) -> str:
        return f"{self.row} seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Status:
    """A run: its cells in the order of its plan."""

    suite: str | None  # None: a runner has just started, and has not said
    is_smoke: bool
    device: str | None
    is_held: bool | None  # whether a runner holds the folder; None: the file system cannot tell
    cells: tuple[CellStatus, ...] = ()

    @property
    def counts(self) -> dict[State, int]:
        """The number of cells in each state that occurs."""
        counts = Counter(cell.state for cell in self.cells)
        return {state: counts[state] for state in get_args(State) if counts[state]}

    @property
    def is_complete(self) -> bool:
        """Whether every cell has ended, with the speed of its row."""
        return bool(self.cells) and self.counts.keys() <= {"done", "failed", "skipped"}


def status(run_dir: RunArgument, as_json: JsonOption = False) -> None:
    """Show what is done, what runs where, and what failed or was lost."""
    from tread_bench.cli.console import stdout_console
    from tread_bench.runner.folder import RunFolder

    now = status_of(RunFolder(run_dir))
    typer.echo(json.dumps(_plain(now), indent=2)) if as_json else stdout_console().print(_picture(now))


def status_of(folder: RunFolder) -> Status:
    """Read the state of a run folder, and change nothing there.

    Raises:
        StoreError: it is not a run folder, or its plan cannot be read.
    """
    from tread_bench.core.stored.cache import is_locked

    is_held = is_locked(folder.root / ".lock")
    if is_held and not folder.plan_path.exists():  # by a runner that has just started
        return Status(suite=None, is_smoke=False, device=None, is_held=is_held)
    plan = folder.existing_plan()
    cells = tuple(_look(folder, cell_id, plan) for cell_id in plan.cells)
    return Status(plan.suite.name, plan.smoke, plan.numerics.device, is_held, cells)


def _look(folder: RunFolder, cell_id: str, plan: RunPlan) -> CellStatus:
    """The state of a cell."""
    from tread_bench.runner.heartbeat import read_progress

    # It has ended, or cannot be read.
    row, seed = plan.rows[cell_id]
    try:
        folder.request(cell_id)  # which must be readable, too
        record = folder.record(cell_id)
    except UserError as error:
        return CellStatus(cell_id, row, seed, "unreadable", str(error))
    if record is not None:
        state: State = "trained" if plan.timing.pairs and record.lacks_speed else record.status
        return CellStatus(cell_id, row, seed, state, record.reason)

    # It runs, was lost, or has not begun.
    progress = read_progress(folder, cell_id)
    silent_s = max(0.0, time.time() - progress.updated) if progress else 0.0
    is_heard_elsewhere = progress is not None and progress.host != platform.node() and silent_s < HEARD_S
    if folder.is_taken(cell_id) or is_heard_elsewhere:
        return CellStatus(cell_id, row, seed, "running", progress=progress, silent_s=silent_s)
    if progress is None:
        return CellStatus(cell_id, row, seed, "waiting")
    return CellStatus(cell_id, row, seed, "lost", LOST, progress)


def _plain(status: Status) -> dict[str, Any]:
    """The same as the tables, for scripts; null: unknown, or it does not apply."""
    cells = [{**asdict(cell), "progress": cell.progress and cell.progress.model_dump()} for cell in status.cells]
    about = {"headline": headline(status), "is_complete": status.is_complete, "counts": status.counts}
    return {**asdict(status), "cells": cells, **about}


def headline(status: Status) -> str:
    """Return one line about the whole run: what it is doing, or how a run without a runner was left."""
    cells, counts = len(status.cells), status.counts
    is_trained = not counts.keys() & {"running", "lost", "waiting"}
    if not cells:
        return "a runner has just started"
    if status.is_complete:
        stage = "finished"
    elif status.is_held or "running" in counts:
        stage = "measuring speed and memory" if is_trained else "training"
    elif status.is_held is None:
        stage = "it cannot be seen from here whether a runner is active"
    else:
        if "unreadable" in counts:
            left = f"and {counts['unreadable']} of {cells} cells cannot be read, for the reasons given with them"
        elif "lost" in counts:
            left = "it was interrupted"
        else:
            left = "every cell is trained" if is_trained else f"{counts['waiting']} of {cells} cells have not started"
        stage = f"no runner is active, {left}; `tread-bench run` with its suite resumes it"
    which = " (smoke run)" if status.is_smoke else ""
    in_states = ", ".join(f"{count} {state}" for state, count in counts.items())
    return f"{status.suite}{which}: {stage} ({cells} cells: {in_states})"


def _picture(status: Status) -> RenderableType:
    """The headline; how many cells of each row are in each state; running cells; and what failed or was lost."""
    from rich.console import Group
    from rich.table import Column, Table
    from rich.text import Text

    # The headline, and how many cells of each row are in each state.
    parts: list[RenderableType] = [Text(headline(status), style="bold")]
    if status.cells:
        states = list(status.counts)
        heads = (Column(state, justify="right", style=COLOURS.get(state, "")) for state in states)
        table = Table(Column("row", overflow="fold"), *heads)
        rows: dict[str, Counter[str]] = {}
        for cell in status.cells:
            rows.setdefault(cell.row, Counter())[cell.state] += 1
        for row, counts in rows.items():
            table.add_row(row, *(str(counts[state] or "") for state in states))
        parts.append(table)

    # Running cells; then what failed or was lost, which its runner or the next one tries again.
    if running := [cell for cell in status.cells if cell.state == "running"]:
        first, last = Column("running cell", overflow="fold"), Column("where", overflow="fold")
        table = Table(
            first, "phase", Column("iteration", justify="right"), Column("iterations/s", justify="right"), last
        )
        for cell in running:
            table.add_row(*_running(cell, status))
        parts.append(table)
    for cell in status.cells:
        if cell.reason:
            again = "; it resumes from its last checkpoint" if cell.state == "lost" else ""
            text = f"{cell.name}: {cell.state}: {cell.reason}{again}"
            parts.append(Text(text, style=COLOURS.get(cell.state, "")))
    return Group(*parts)


def _running(cell: CellStatus, status: Status) -> tuple[str, ...]:
    """A cell's phase, what is done, how fast it trains, and where it runs."""
    from tread_bench.services.display import duration

    # Its phase, and for how long it has not reported.
    progress = cell.progress
    phase = progress.phase if progress else "starting"
    if cell.silent_s is not None and cell.silent_s > SILENT_S:
        phase += f", silent for {duration(cell.silent_s)}"

    done = rate = where = ""
    if progress is not None:
        done = f"{progress.done:,}/{progress.of:,}" if progress.of else ""
        rate = f"{progress.rate:.3g}" if progress.rate else ""
        gpu = f", GPU {progress.device}" if status.device == "cuda" and progress.device else ""
        where = f"{progress.host}, pid {progress.pid}{gpu}"
    return cell.name, phase, done, rate, where
