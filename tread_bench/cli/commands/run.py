"""The command `run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tread_bench.cli.options import (
    FORGETS,
    DataRootOption,
    JsonOption,
    SetOption,
    SuiteArgument,
    number,
    resumable,
)
from tread_bench.services.choices import Device, Executor, Tracker


def run(
    suite: SuiteArgument,
    overrides: SetOption = [],  # noqa: B006  (typer reads it once)
    out: Annotated[Path | None, typer.Option("--out", help="run folder; default: runs/<suite>")] = None,
    data_root: DataRootOption = None,
    rows: Annotated[
        list[str],
        typer.Option(
            "--rows", metavar="A,B", help="run these rows of the suite, and rows whose weights they read; default: all"
        ),
    ] = [],  # noqa: B006
    device: Annotated[
        Device,
        typer.Option(
            "--device",
            help="auto: the device that the run folder was started on; in a new folder, or with --fresh, CUDA if there "
            "is one",
        ),
    ] = "auto",
    executor: Annotated[
        Executor, typer.Option("--executor", help="this machine, a Ray cluster, or Slurm; they share the run folder")
    ] = "local",
    workers: Annotated[int | None, number("--workers", "cells trained at a time")] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="I/N",
            help="train the Ith of N equal parts of the cells, on a folder shared with the other parts; "
            "one last run without it measures speed and writes the comparison",
        ),
    ] = None,
    smoke: Annotated[
        bool,
        typer.Option(
            "--smoke", help="a few iterations of each cell, on random data where files are missing: does it work?"
        ),
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="run failed cells again, from their last checkpoint unless they diverged",
            rich_help_panel=FORGETS,
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="remove the results of this suite (or --rows) from the run folder, after naming them and asking",
            rich_help_panel=FORGETS,
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="let --fresh remove without asking", rich_help_panel=FORGETS)
    ] = False,
    accept_other_numerics: Annotated[
        bool,
        typer.Option(
            "--accept-other-numerics",
            help="continue after numerical choices or code of plug-ins changed; records say so",
        ),
    ] = False,
    track: Annotated[
        Tracker | None,
        typer.Option("--track", help="write each cell's curves as it trains, for `tensorboard --logdir RUN_DIR/cells`"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train and measure every cell of a suite and write the comparison. The same command again resumes a run."""
    from tread_bench.cli.show.run import run_suite
    from tread_bench.runner.options import Options
    from tread_bench.runner.shards import Shard

    options = Options(
        device=device,
        rows=tuple(rows),
        executor=executor,
        workers=workers,
        shard=Shard.parse(shard) if shard else None,
        retry_failed=retry_failed,
        fresh=fresh,
        agreed=yes,
        accept_other_numerics=accept_other_numerics,
        track=track,
    )
    with resumable():
        status = run_suite(suite, overrides, out, smoke, options, as_json, data_root)
    raise typer.Exit(status)
