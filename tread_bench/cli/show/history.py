"""`ci history`: many runs, and where their figures changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from tread_bench.cli.show.console import stdout_console
from tread_bench.regression.history.metrics import METRICS
from tread_bench.regression.history.runs import Run
from tread_bench.regression.history.series import Series
from tread_bench.reports.page.history import ChangeLine, change_lines, decision, headline, notes
from tread_bench.services.history import history_of

LEFT_OUT = 3  # exit status: part of what was given was left out
_STYLES = {"worse": "bold red", "better": "green"}


def show_history(folders: Sequence[Path], out: Path, tables: Path | None, as_json: bool) -> int:
    """Write the page, print the changes; the exit status: 0, or 3 where a folder is left out. Raises UserError."""
    history = history_of(folders, out, tables)
    if as_json:
        typer.echo(json.dumps(history.as_json(), indent=2))
    else:
        _tell(history.series, history.runs)
        typer.echo(str(out / "index.html"))
    return LEFT_OUT if history.left_out else 0


def _tell(series: Sequence[Series], runs: Sequence[Run]) -> None:
    lines, probed = change_lines(series, runs), METRICS["step_time_probes"]
    if lines:
        stdout_console().print(_table(lines))
    if any(line.series.metric == probed for line in lines):
        typer.echo(f"{probed.title} in {probed.unit}: {probed.about[0].lower()}{probed.about[1:]}")
    typer.echo("; ".join((headline(series, runs), *notes(series))))
    typer.echo(decision(series, runs))


def _table(lines: Sequence[ChangeLine]) -> Table:
    several = len({line.series.suite for line in lines}) > 1
    table = Table("row", "figure", "before", "after", "change", "effect", "between commits")
    for line in lines:
        row = f"{line.series.suite}: {line.row}" if several else line.row
        between = f"{line.last.label} … {line.first.label}"
        texts = (row, line.series.metric.title, line.before, line.after, line.size, line.change.effect, between)
        table.add_row(*(Text(text) for text in texts), style=_STYLES.get(line.change.effect))
    return table
