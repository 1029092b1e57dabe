"""The command `status`: the state of a run."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from tread_bench.cli.options import JsonOption, RunArgument

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tread_bench.runner.status import CellStatus, Status

SILENT_S = 60.0  # without a report, after which a running cell is called silent
COLOURS = {"failed": "red", "lost": "yellow", "unreadable": "red", "running": "cyan", "done": "green"}


def status(run_dir: RunArgument, as_json: JsonOption = False) -> None:
    """Show what is done, what runs where, and what failed or was lost."""
    from tread_bench.cli.console import stdout_console
    from tread_bench.runner.folder import RunFolder
    from tread_bench.runner.status import status_of

    now = status_of(RunFolder(run_dir))
    typer.echo(json.dumps(_plain(now), indent=2)) if as_json else stdout_console().print(_picture(now))


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
    """What the run is doing."""
    is_trained = all(cell.is_trained for cell in status.cells)
    if status.is_complete:
        return "finished"
    if not status.cells:
        return "a runner has just started"

    # The state in which a run without a runner was left.
    cells, counts = len(status.cells), status.counts
    if not status.is_held and "running" not in counts:
        if status.is_held is None:
            return "it cannot be seen from here whether a runner is active"
        if unreadable := counts.get("unreadable"):
            state = f"and {unreadable} of {cells} cells cannot be read, for the reasons given with them"
        elif counts.get("lost"):
            state = "it was interrupted"
        else:
            state = "every cell is trained" if is_trained else f"{counts['waiting']} of {cells} cells have not started"
        return f"no runner is active, {state}; `tread-bench run` with its suite resumes it"

    return "measuring speed and memory" if is_trained else "training"


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

    # Running cells; then what failed or was lost.
    if running := [cell for cell in status.cells if cell.state == "running"]:
        first, last = Column("running cell", overflow="fold"), Column("where", overflow="fold")
        table = Table(
            first, "phase", Column("iteration", justify="right"), Column("iterations/s", justify="right"), last
        )
        for cell in running:
            table.add_row(*_running(cell, status))
        parts.append(table)
    parts += [Text(_line(cell), style=COLOURS.get(cell.state, "")) for cell in status.cells if cell.reason]
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
    return _name(cell), phase, done, rate, where


def _name(cell: CellStatus) -> str:
    return cell.row if cell.seed is None else f"{cell.row} seed {cell.seed}"


def _line(cell: CellStatus) -> str:
    """Its state, and why; a lost cell is retried, by its runner or by the next one."""
    reason = f": {cell.reason}" if cell.reason else ""
    again = "; it resumes from its last checkpoint" if cell.state == "lost" else ""
    return f"{_name(cell)}: {cell.state}{reason}{again}"
