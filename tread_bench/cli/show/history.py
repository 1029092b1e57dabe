"""`history`: many runs, and where their figures changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from tread_bench.cli.show.console import stdout_console
from tread_bench.core.stored.destinations import claim_folders
from tread_bench.regression.history.metrics import METRICS
from tread_bench.regression.history.runs import LeftOut, Run, read_runs
from tread_bench.regression.history.series import Series, series_of
from tread_bench.reports.history import ChangeLine, change_lines, headline, notes, render
from tread_bench.runner.folder import disk_errors_reported

LEFT_OUT = 3  # exit status: part of what was given was left out
_STYLES = {"worse": "bold red", "better": "green"}


def show_history(folders: Sequence[Path], out: Path, export_to: Path | None, as_json: bool) -> int:
    """Write the page, print the changes; the exit status: 0, or 3 where a folder is left out. Raises UserError."""
    runs, left_out = read_runs(folders)
    claim_folders("tread-bench ci history", {"--out": out, "--export": export_to})
    for left in left_out:
        typer.echo(f"left out: {left.reason}", err=True)
    series = series_of(runs)
    with disk_errors_reported(out):
        render(runs, series, left_out, out, export_to)
    if as_json:
        typer.echo(json.dumps(_document(runs, left_out, series), indent=2))
    else:
        _tell(series, runs)
        typer.echo(str(out / "index.html"))
    return LEFT_OUT if left_out else 0


def _tell(series: Sequence[Series], runs: Sequence[Run]) -> None:
    lines, probed = change_lines(series, runs), METRICS["step_time_probes"]
    if lines:
        stdout_console().print(_table(lines))
    if any(line.series.metric == probed for line in lines):
        typer.echo(f"{probed.title} in {probed.unit}: {probed.about[0].lower()}{probed.about[1:]}")
    typer.echo("; ".join((headline(series, runs), *notes(series))))


def _table(lines: Sequence[ChangeLine]) -> Table:
    several = len({line.series.suite for line in lines}) > 1
    table = Table("row", "figure", "before", "after", "change", "effect", "between commits")
    for line in lines:
        row = f"{line.series.suite}: {line.row}" if several else line.row
        between = f"{line.last.label} … {line.first.label}"
        texts = (row, line.series.metric.title, line.before, line.after, line.size, line.change.effect, between)
        table.add_row(*(Text(text) for text in texts), style=_STYLES.get(line.change.effect))
    return table


def _document(runs: Sequence[Run], left_out: Sequence[LeftOut], series: Sequence[Series]) -> dict[str, Any]:
    """`runs` of points and changes are places in the list of runs."""
    return {
        "runs": [_run(run) for run in runs],
        "left_out": [{"path": str(left.path), "reason": left.reason} for left in left_out],
        "series": [_series(one) for one in series],
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "path": str(run.path),
        "suite": run.suite,
        "label": run.label,
        "commit": run.commit or None,
        "committed": run.committed and run.committed.isoformat(),
        "changed": run.is_changed,
        "version": run.version,
        "started": run.started.isoformat(),
    }


def _series(series: Series) -> dict[str, Any]:
    return {
        "suite": series.suite,
        "row": series.row,
        "metric": series.metric.name,
        "unit": series.metric.unit,
        "apart": series.apart,
        "runs": series.runs,
        "values": series.values,
        "enough_runs": series.is_enough,
        "changes": [change._asdict() for change in series.changes],
    }
