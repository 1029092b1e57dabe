"""The command `run`."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tread_bench.cli.options import (
    DataRootOption,
    JsonOption,
    SetOption,
    SuiteArgument,
    forgets,
    number,
    option,
    resumable,
)
from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.services.choices import Device, Executor

if TYPE_CHECKING:
    from tread_bench.services.run import Done

_NAMED = 5  # files in a message


def run(
    suite: SuiteArgument,
    overrides: SetOption = [],  # noqa: B006  (typer reads it once)
    out: Annotated[Path | None, option("--out", "run folder; default: runs/<suite>")] = None,
    data_root: DataRootOption = None,
    rows: Annotated[
        list[str],
        option("--rows", "run these rows of the suite, and rows whose weights they read; default: all", metavar="A,B"),
    ] = [],  # noqa: B006
    device: Annotated[
        Device,
        option(
            "--device",
            "auto: the device that the run folder was started on; in a new folder, or with --fresh, CUDA if there "
            "is one",
        ),
    ] = "auto",
    executor: Annotated[
        Executor, option("--executor", "this machine, a Ray cluster, or Slurm; they share the run folder")
    ] = "local",
    workers: Annotated[int | None, number("--workers", "cells trained at a time")] = None,
    shard: Annotated[
        str | None,
        option(
            "--shard",
            "train the Ith of N equal parts of the cells, on a folder shared with the other parts; "
            "one last run without it measures speed and writes the comparison",
            metavar="I/N",
        ),
    ] = None,
    smoke: Annotated[
        bool, option("--smoke", "a few iterations of each cell, on random data where files are missing: does it work?")
    ] = False,
    retry_failed: Annotated[
        bool, forgets("--retry-failed", "run failed cells again, from their last checkpoint unless they diverged")
    ] = False,
    fresh: Annotated[
        bool,
        forgets(
            "--fresh", "remove the results of this suite (or --rows) from the run folder, after naming them and asking"
        ),
    ] = False,
    yes: Annotated[bool, forgets("--yes", "let --fresh remove without asking")] = False,
    accept_other_numerics: Annotated[
        bool,
        option(
            "--accept-other-numerics",
            "continue after numerical choices or versions of plug-ins changed; records say so",
        ),
    ] = False,
    track: Annotated[
        Literal["tensorboard"] | None,
        option("--track", "write each cell's curves as it trains, for `tensorboard --logdir RUN_DIR/cells`"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train and measure every cell of a suite and write the comparison. The same command again resumes a run."""
    from tread_bench.runner.options import Options, Shard
    from tread_bench.services.run import bring_up_to_date

    options = Options(
        device=device,
        rows=tuple(rows),
        executor=executor,
        workers=workers,
        shard=Shard.parse(shard) if shard else None,
        retry_failed=retry_failed,
        fresh=fresh,
        accept_other_numerics=accept_other_numerics,
        track=track,
    )
    with resumable():
        done = bring_up_to_date(suite, overrides, out, smoke, options, data_root, partial(_agree, yes))
        _print(done, as_json)
    if done.failed or done.result.taken or done.result.untuned:
        raise typer.Exit(1)


def _print(done: Done, as_json: bool) -> None:
    """What was done and the table of its rows, or all of it as JSON."""
    from tread_bench.cli.comparison import print_comparison

    result = done.result
    again = f" ({len(done.failed)} of them failed; --retry-failed runs those again)" if done.failed else ""
    if result.taken:
        typer.echo(f"another process is still working on {result.taken} cells; run this command again later", err=True)
    if as_json:
        typer.echo(json.dumps(_as_json(done), indent=2))
        return
    if done.options.shard is not None:
        which = "smoke run, " if done.plan.is_smoke else ""
        typer.echo(f"{which}shard {done.options.shard}: {result.finished_now} cells finished this time{again}")
        typer.echo("when all shards have finished, run the command without --shard: it measures speed and compares")
        return

    # What there was to do, and the table of what is new.
    if not result.finished_now and not result.taken:
        stale = f"made again, since missing or older than the records: {few(done.stale, _NAMED)}"
        which = " of this smoke run" if done.plan.is_smoke else ""
        which += " of the requested rows" if done.options.rows else ""
        all_there = f"all {len(result.cells)} cells{which} have their records"
        typer.echo(f"{stale if done.stale else 'nothing to do'}: {all_there}{again}")
    if result.finished_now or done.stale:
        plan = done.plan
        print_comparison(done.study, plan.planned, plan.stand_ins)
    typer.echo(str(done.root / "index.html"))


def _as_json(done: Done) -> dict[str, Any]:
    """What the run has, as one document; `results` has the lines of results.csv, with null where nothing applies."""
    from tread_bench.runner.folder import RunFolder
    from tread_bench.services.decisions import decisions_of, hypothesis_of

    plan, study = done.plan, done.study
    frame = study.frame.astype(object)
    return {
        "suite": done.plan.suite.name,
        "folder": str(done.root),
        "page": str(done.root / "index.html") if done.options.shard is None else None,
        "smoke": done.plan.is_smoke,
        "device": RunFolder(done.root).existing_plan().numerics.device,
        "cells": len(done.result.cells),
        "finished_now": done.result.finished_now,
        "failed": len(done.failed),
        "taken": done.result.taken,
        "decision": decisions_of(study, plan.planned),
        "hypothesis": hypothesis_of(study, plan.planned),
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
