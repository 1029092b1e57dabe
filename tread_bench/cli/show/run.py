"""`run`: what it did, and the table of its rows."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import typer

from tread_bench.cli.show.comparison import print_comparison
from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.stored.records import Record
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.options import Options
from tread_bench.runner.prepare import registered
from tread_bench.services.decisions import decisions_of, hypothesis_of
from tread_bench.services.run import Done, bring_up_to_date

_NAMED = 5  # files in a message


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
    done = bring_up_to_date(name, overrides, out, smoke, options, data_root, partial(_agree, options.agreed))
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
        plan = done.plan
        print_comparison(result.records, plan.planned, plan.is_smoke, plan.stand_ins, registered(plan))
    typer.echo(str(done.page))
    return done.status


def _all_there(done: Done) -> str:
    """That no requested cell is missing."""
    which = " of this smoke run" if done.plan.is_smoke else ""
    which += " of the requested rows" if done.options.rows else ""
    return f"all {len(done.result.cells)} cells{which} have their records"


def _as_json(done: Done) -> dict[str, Any]:
    """What the run has, as one document; `results` has the lines of results.csv, with null where nothing applies."""
    from tread_bench.reports.frame import results_frame

    records, plan = done.result.records, done.plan
    frame = results_frame(records, plan.is_smoke).astype(object)
    return {
        "suite": done.plan.suite.name,
        "folder": str(done.root),
        "page": str(done.page) if done.options.shard is None else None,
        "smoke": done.plan.is_smoke,
        "device": RunFolder(done.root).existing_plan().numerics.device,
        "cells": len(done.result.cells),
        "finished_now": done.result.finished_now,
        "failed": len(done.failed),
        "taken": done.result.taken,
        "decision": decisions_of(records, plan.planned, plan.is_smoke),
        "hypothesis": hypothesis_of(records, plan.planned, plan.is_smoke, registered(plan)),
        "results": frame.where(frame.notna(), None).to_dict("records"),
    }


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
