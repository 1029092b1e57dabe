"""`run`: a suite to its comparison."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table

from tread_bench.cli.console import stdout_console
from tread_bench.cli.display import make_display
from tread_bench.cli.report import render_report
from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.stored.records import Record
from tread_bench.runner.folder import RunFolder, disk_errors_reported
from tread_bench.runner.options import Options
from tread_bench.runner.runner import Result, run
from tread_bench.runner.stand_in import write_stand_ins
from tread_bench.suite.files import Look, unchanged
from tread_bench.suite.load import find_suite, load_plan
from tread_bench.suite.plan import Plan

_NAMED = 5  # files in a message
PRINTED = ("FID", "Δ FID", "Δ FID, equal MACs", "Speed-up")  # the page has every column
PRINTED_WIDE = ("Seeds", *PRINTED, "Ideal", "GMACs", "Images/s", "Δ Val. loss")


@dataclass(frozen=True, slots=True)
class Done:
    """A run brought up to date.

    `stale`: derived files that were missing or older than the records, and were made again.
    """

    plan: Plan
    root: Path
    options: Options
    result: Result
    stale: list[str]

    @property
    def page(self) -> Path:
        return self.root / "index.html"

    @property
    def failed(self) -> list[Record]:
        """Records of the requested cells that failed."""
        requested = {cell.id for cell in self.plan.chosen(self.options.rows)}
        return [record for record in self.result.records if record.status == "failed" and record.cell in requested]

    @property
    def status(self) -> int:
        """The exit status: 0 all requested cells are done, 1 some failed or are another process's."""
        return 1 if self.failed or self.result.taken else 0


def run_suite(
    name: str,
    overrides: list[str],
    out: Path | None,
    smoke: bool,
    options: Options,
    as_json: bool = False,
    data_root: Path | None = None,
) -> int:
    """Run, report, print the table, or all of it as JSON; the exit status."""
    done = bring_up_to_date(name, overrides, out, smoke, options, data_root)
    result = done.result
    if result.taken:
        typer.echo(f"another process is still working on {result.taken} cells; run this command again later", err=True)
    if as_json:
        typer.echo(json.dumps(_as_json(done), indent=2))
        return done.status
    if options.shard is not None:
        which = "smoke run, " if smoke else ""
        typer.echo(f"{which}shard {options.shard}: {result.finished_now} cells finished this time{_again(done.failed)}")
        typer.echo("when all shards have finished, run the command without --shard: it measures speed and compares")
        return done.status

    # What there was to do, and the table of what is new.
    if not result.finished_now and not result.taken:
        stale = f"made again, since missing or older than the records: {few(done.stale, _NAMED)}"
        typer.echo(f"{stale if done.stale else 'nothing to do'}: {_all_there(done)}" + _again(done.failed))
    if result.finished_now or done.stale:
        _print_table(result.records, done.plan)
    typer.echo(str(done.page))
    return done.status


def bring_up_to_date(
    name: str, overrides: list[str], out: Path | None, smoke: bool, options: Options, data_root: Path | None = None
) -> Done:
    """Run what is missing and, unless it is a part of the run, draw the page if it is not of these records."""
    # Every mistake at once: a smoke run, too, is of a suite that could be run if its files were there.
    path = find_suite(name)
    console = Console(stderr=True)
    # All samples are read where cells run: a login node is no place for it.
    look = Look.CONTENTS if options.runs_here else Look.NETWORKS
    with console.status("checking the suite and its data"):
        plan = load_plan(path, overrides, data_root=data_root, look=look, allows_missing=smoke)
    plan.chosen(options.rows)  # or say which rows there are, before a stand-in is written
    root = out or Path("runs") / (f"{plan.suite.name}-smoke" if smoke else plan.suite.name)
    if smoke:
        plan = _smoke_plan(plan, path, overrides, root, options, data_root)

    # Run the plan.
    agree = partial(_agree, options.agreed)
    result = run(plan, path.read_text(encoding="utf-8"), root, options, make_display(console), agree)

    # Draw the page.
    stale = RunFolder(root).stale() if options.shard is None else []
    if stale or (result.finished_now and options.shard is None):
        render_report(root)
    return Done(plan, root, options, result, stale)


def _all_there(done: Done) -> str:
    """That no requested cell is missing."""
    which = " of this smoke run" if done.plan.is_smoke else ""
    which += " of the requested rows" if done.options.rows else ""
    return f"all {len(done.plan.chosen(done.options.rows))} cells{which} have their records"


def _as_json(done: Done) -> dict[str, Any]:
    """What the run has, as one document; `results` has the lines of results.csv, with null where nothing applies."""
    from tread_bench.reports.tables import results_frame

    frame = results_frame(done.result.records, done.plan.is_smoke).astype(object)
    return {
        "suite": done.plan.suite.name,
        "folder": str(done.root),
        "page": str(done.page) if done.options.shard is None else None,
        "smoke": done.plan.is_smoke,
        "device": RunFolder(done.root).existing_plan().numerics.device,
        "cells": len(done.plan.chosen(done.options.rows)),
        "finished_now": done.result.finished_now,
        "failed": len(done.failed),
        "taken": done.result.taken,
        "results": frame.where(frame.notna(), None).to_dict("records"),
    }


def _smoke_plan(
    whole: Plan, path: Path, overrides: list[str], root: Path, options: Options, data_root: Path | None
) -> Plan:
    """The plan, shortened, with random data in place of files that are missing. Raises UserError."""
    replace_missing = unchanged
    stand_ins: list[str] = []
    if whole.missing:
        folder = RunFolder(root.absolute())
        folder.refuse_foreign()
        with folder.lock(str(options.shard or "")), folder.turn(), disk_errors_reported(root):
            written = write_stand_ins(whole, folder)
        replace_missing, stand_ins = written.replace, written.kinds
        typer.echo("\n".join(["missing:", *map(str, whole.missing)]), err=True)
        typer.echo(f"random in this smoke run, in place of what is missing: {', '.join(stand_ins)}", err=True)
    plan = load_plan(path, overrides, data_root=data_root, is_smoke=True, replace_missing=replace_missing)
    return replace(plan, stand_ins=tuple(stand_ins))


def _agree(is_agreed: bool, message: str) -> None:
    """Name what will be removed, and ask unless `yes`. Raises UserError where the user does not agree."""
    typer.echo(message, err=True)
    if is_agreed:
        return
    if not sys.stdin.isatty():
        raise UserError("nothing was changed: without a terminal to ask at, --fresh needs --yes")
    if not typer.confirm("Remove it?", err=True):
        raise UserError("nothing was changed")


def _again(failed: list[Record]) -> str:
    return f" ({len(failed)} of them failed; --retry-failed runs those again)" if failed else ""


def _print_table(records: list[Record], plan: Plan) -> None:
    """The main table of the comparison on stdout, for each group of rows that may be ranked together."""
    from tread_bench.reports.cautions import of_smoke_run
    from tread_bench.reports.comparison import comparison
    from tread_bench.reports.table_view import comparison_view

    console = stdout_console()
    is_smoke = plan.is_smoke
    if is_smoke:
        console.print(f"SMOKE RUN. {of_smoke_run(plan.stand_ins)}")
    printed = PRINTED_WIDE if console.width >= 120 else PRINTED
    for _, members in groupby(comparison(records, is_smoke), key=lambda row: row.group):
        view = comparison_view(list(members))
        shown = [k for k, (title, _) in enumerate(view.headers) if title in printed]
        title = "smoke run" if is_smoke else None
        table = Table(Column("row", no_wrap=True), *(view.headers[k][0] for k in shown), title=title)
        for row, cells in view.rows:
            table.add_row(row.label, *(f"{cells[k].text}\n{cells[k].below}".strip() for k in shown))
        console.print(table)
