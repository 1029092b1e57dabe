"""`status`: the state of a run, once or while it runs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from tread_bench.cli.show.console import stdout_console
from tread_bench.runner.cell_status import CellStatus
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.status import Status, status_of
from tread_bench.services.display import duration

EVERY_S = 1.0  # between two looks
SILENT_S = 60.0  # without a report, after which a running cell is called silent
COLOURS = {"failed": "red", "lost": "yellow", "unreadable": "red", "running": "cyan", "done": "green"}


def show_status(root: Path, is_watched: bool, as_json: bool) -> None:
    """Print the state of a run; with `watch`, until every cell has its record or Ctrl-C, even without a runner.

    Raises:
        StoreError: `root` is not a run folder.
    """
    folder, console = RunFolder(root), stdout_console()
    if not is_watched:
        status = status_of(folder)
        typer.echo(json.dumps(_plain(status), indent=2)) if as_json else console.print(_picture(status))
        return
    try:
        if as_json:
            _follow_json(folder)
        elif console.is_terminal:
            _refresh(folder, console)
        else:
            _follow_lines(folder)
    except KeyboardInterrupt:  # the usual way to leave it
        pass


def _looks(folder: RunFolder) -> Iterator[Status]:
    """Until every cell has its record."""
    while not (status := status_of(folder)).is_complete:
        yield status
        time.sleep(EVERY_S)
    yield status


def _refresh(folder: RunFolder, console: Console) -> None:
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for status in _looks(folder):
            live.update(_picture(status), refresh=True)


def _follow_lines(folder: RunFolder) -> None:
    """A line about each cell whose state has changed, then one about the run; also when its runner starts or ends."""
    before: Status | None = None
    for status in _looks(folder):
        states = _states(status)
        if before is None or (states, status.is_held) != (_states(before), before.is_held):
            for cell in status.cells:
                if before is not None and _states(before).get(cell.cell) != cell.state:
                    typer.echo(_line(cell))
            typer.echo(headline(status))
        before = status


def _states(status: Status) -> dict[str, str]:
    return {cell.cell: cell.state for cell in status.cells}


def _follow_json(folder: RunFolder) -> None:
    for status in _looks(folder):
        typer.echo(json.dumps(_plain(status)))


def _plain(status: Status) -> dict[str, Any]:
    """The same as the tables, for scripts; null: unknown, or it does not apply."""
    cells = [{**asdict(cell), "progress": cell.progress and cell.progress.model_dump()} for cell in status.cells]
    about = {"headline": headline(status), "is_complete": status.is_complete, "counts": status.counts}
    return {**asdict(status), "cells": cells, **about}


def headline(status: Status) -> str:
    """Return one line about the whole run."""
    counts = ", ".join(f"{count} {state}" for state, count in status.counts.items())
    which = " (smoke run)" if status.is_smoke else ""
    summary = f"{status.suite}{which}: {_stage(status)}" if status.suite else _stage(status)
    return f"{summary} ({len(status.cells)} cells: {counts})" if counts else summary


def _stage(status: Status) -> str:
    """What the run is doing, and how long that may take."""
    is_trained = all(cell.is_trained for cell in status.cells)
    if status.is_complete:
        return "finished"
    if not status.cells:
        return "a runner has just started"
    if not status.is_held and "running" not in status.counts:
        return _stopped(status, is_trained)
    if is_trained:
        return f"measuring speed and memory, {status.rows_measured} of {status.rows_to_measure} rows done"
    about = "at least" if status.is_at_least else "about"
    if status.seconds_left is None:
        return "an unknown time of training left"
    end = datetime.now() + timedelta(seconds=status.seconds_left)
    return f"{about} {duration(status.seconds_left)} of training left, until {end:%a %d %b %H:%M}"


def _stopped(status: Status, is_trained: bool) -> str:
    if status.is_held is None:
        return "it cannot be seen from here whether a runner is active"
    return f"no runner is active, {_left_as(status, is_trained)}; `tread-bench run` with its suite resumes it"


def _left_as(status: Status, is_trained: bool) -> str:
    """The state in which a run without a runner was left."""
    cells, counts = len(status.cells), status.counts
    if unreadable := counts.get("unreadable"):
        return f"and {unreadable} of {cells} cells cannot be read, for the reasons given with them"
    if counts.get("lost"):
        return "it was interrupted"
    return "every cell is trained" if is_trained else f"{counts['waiting']} of {cells} cells have not started"


def _picture(status: Status) -> RenderableType:
    parts: list[RenderableType] = [Text(headline(status), style="bold")]
    if status.cells:
        parts.append(_rows_table(status))
    if running := [cell for cell in status.cells if cell.state == "running"]:
        parts.append(_running_table(running, status))
    for cell in status.cells:
        if cell.reason:
            parts.append(Text(_line(cell), style=COLOURS.get(cell.state, "")))
    return Group(*parts)


def _rows_table(status: Status) -> Table:
    """How many cells of each row are in each state."""
    states = list(status.counts)
    heads = (Column(state, justify="right", style=COLOURS.get(state, "")) for state in states)
    table = Table(Column("row", overflow="fold"), *heads)
    rows: dict[str, Counter[str]] = {}
    for cell in status.cells:
        rows.setdefault(cell.row, Counter())[cell.state] += 1
    for row, counts in rows.items():
        table.add_row(row, *(str(counts[state] or "") for state in states))
    return table


def _running_table(cells: list[CellStatus], status: Status) -> Table:
    table = Table(
        Column("running cell", overflow="fold"),
        "phase",
        Column("iteration", justify="right"),
        Column("images/s", justify="right"),
        Column("MFU", justify="right"),
        Column("left", justify="right"),
        Column("where", overflow="fold"),
    )
    for cell in cells:
        table.add_row(_name(cell), _phase(cell), *_speed(cell, status.is_at_least), _where(cell, status.device))
    return table


def _phase(cell: CellStatus) -> str:
    """Its phase, its number of attempts, and for how long it has not reported."""
    parts = [cell.progress.phase if cell.progress else "starting"]
    if cell.attempts > 1:
        parts.append(f"attempt {cell.attempts}")
    if cell.silent_s is not None and cell.silent_s > SILENT_S:
        parts.append(f"silent for {duration(cell.silent_s)}")
    return ", ".join(parts)


def _speed(cell: CellStatus, is_at_least: bool) -> tuple[str, str, str, str]:
    """What is done, images per second, their share of what the machine can compute, and the time left."""
    progress, more = cell.progress, "> " if is_at_least else ""
    done = f"{progress.done:,}/{progress.of:,}" if progress and progress.of else ""
    images = cell.images_per_s or 0.0
    rate = "" if not images else f"{images:,.{0 if images >= 100 else 1}f}"
    mfu = "" if cell.mfu is None else f"{cell.mfu:.0%}"
    return done, rate, mfu, "unknown" if cell.seconds_left is None else f"{more}{duration(cell.seconds_left)}"


def _where(cell: CellStatus, device: str | None) -> str:
    progress = cell.progress
    if progress is None:
        return ""
    gpu = f", GPU {progress.device}" if device == "cuda" and progress.device else ""
    return f"{progress.host}, pid {progress.pid}{gpu}"


def _name(cell: CellStatus) -> str:
    return cell.row if cell.seed is None else f"{cell.row} seed {cell.seed}"


def _line(cell: CellStatus) -> str:
    """Its state, and why; a lost cell is retried, by its runner or by the next one."""
    reason = f": {cell.reason}" if cell.reason else ""
    again = "; it resumes from its last checkpoint" if cell.state == "lost" else ""
    return f"{_name(cell)}: {cell.state}{reason}{again}"
