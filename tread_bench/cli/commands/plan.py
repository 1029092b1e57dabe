"""The command `plan`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tread_bench.cli.options import DataRootOption, JsonOption, SetOption, SuiteArgument

if TYPE_CHECKING:
    from rich.table import Table

    from tread_bench.services.detect import Detection
    from tread_bench.services.plan import Planned

UNKNOWN = "not known"


def plan(
    suite: SuiteArgument,
    overrides: SetOption = [],  # noqa: B006
    detect: Annotated[
        float | None,
        typer.Option("--detect", metavar="FID", help="how many seeds find a difference this large, at 80 % power?"),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option("--spread", metavar="FID", help="for --detect: standard deviation of paired differences"),
    ] = None,
    run_with_spread: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RUN", help="for --detect: a finished run, or its export, that shows the spread"
        ),
    ] = None,
    step_time: Annotated[
        str | None,
        typer.Option(
            "--step-time",
            metavar="MS|RUN",
            help="add the hours that it takes; give the ms of a step of its first row, or a run that timed it",
        ),
    ] = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the cells, parameters, MACs, memory of their state, disk and ideal speed-ups of a suite, without training.

    Files that are there are checked by their headers and labels; what is missing is listed.
    """
    from tread_bench.cli.show.console import stdout_console
    from tread_bench.core.stored.documents import Registered
    from tread_bench.services.display import note
    from tread_bench.services.hours import hours_in_words
    from tread_bench.services.plan import plan_suite
    from tread_bench.suite.decidable import OBSTACLES

    request = None
    if (detect, spread, run_with_spread) != (None, None, None):
        from tread_bench.services.detect import DetectRequest  # needs scipy, which takes long to load

        request = DetectRequest.of(detect, spread, run_with_spread)
    planned = plan_suite(suite, overrides, request, step_time, data_root)
    if planned.obstacles:
        note("\n".join([OBSTACLES, *planned.obstacles]))
    if as_json:
        typer.echo(_as_json(planned))
        return

    # The rows.
    study, console = planned.plan, stdout_console()
    console.print(
        f"{study.suite.name}: {len(study.cells)} cells, {len(planned.rows)} rows, {len(study.suite.seeds)} seeds"
    )
    if stated := study.suite.hypothesis:
        registered = Registered.of(stated)
        rule = f"test {stated.test}, margin a ratio of {stated.margin:g}, stopped after {stated.stop} seeds"
        typer.echo(f"hypothesis {registered.sha256[:10]}: {stated.claim} ({rule})")
    if tuning := sum(row["tuning_cells"] for row in planned.rows):
        macs = sum(row["tuning_macs"] for row in planned.rows)
        share = macs / (macs + sum(row["cells"] * row["training_macs"] for row in planned.rows))
        console.print(f"before them, {tuning} cells choose learning rates: {share:.0%} of all training MACs")
    console.print(_table(planned.rows))

    # What was asked about them.
    if planned.pace is not None and planned.hours is not None:
        for line in hours_in_words(planned.hours, study, planned.pace):
            typer.echo(line)
    if planned.missing:
        typer.echo("\n".join(["missing, and needed to run it:", *planned.missing]))
    if planned.detection is not None:
        console.print(_detection_table(planned.detection))
        for line in _detection_in_words(planned.detection):
            typer.echo(line)


def _as_json(planned: Planned) -> str:
    from tread_bench.core.stored.documents import Registered

    plan = planned.plan
    cells = []
    for row in plan.rows.values():
        config = row[0].cell.model_dump(mode="json")  # which the seeds of a row share
        cells += [{"cell": cell.id, "row": cell.row, "seed": cell.seed, "config": config} for cell in row]
    document: dict[str, Any] = {
        "suite": plan.suite.name,
        "rows": planned.rows,
        "cells": cells,
        "missing": planned.missing,
        "obstacles": planned.obstacles,
    }
    if stated := plan.suite.hypothesis:
        document["hypothesis"] = Registered.of(stated).model_dump(mode="json")
    if planned.hours is not None:
        document["device_hours"] = planned.hours
    if planned.detection is not None:
        document["detection"] = planned.detection.as_json()
    return json.dumps(document, indent=2)


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Column, Table

    from tread_bench.services.hours import in_hours

    # The columns; those of budgets and other optimisers only where some row has one, that of hours on request.
    has_budgets = any(row["budget"] for row in rows)
    has_hours = any("device_hours" in row for row in rows)
    has_optimizers = any(row["optimizer"] != "adamw" for row in rows)
    table = Table(
        Column("row", no_wrap=True),
        "routes",
        *(("optimiser",) if has_optimizers else ()),
        "cells",
        *(("iterations", "training MACs,\nof its budget") if has_budgets else ()),
        "parameters",
        "forward\nMMACs",
        "mean training\nstep MMACs",
        "ideal\nspeed-up",
        "tokens per block",
        "disk\nMiB",
        "state\nGiB",
        *(("device-\nhours",) if has_hours else ()),
    )

    # A line per row of the suite.
    for row in rows:
        table.add_row(
            row["row"],
            row["routes"],
            *((row["optimizer"],) if has_optimizers else ()),
            str(row["cells"]),
            *((f"{row['iterations']:,}", _within(row["budget"])) if has_budgets else ()),
            f"{row['params']:,}",
            f"{row['forward_macs'] / 1e6:,.2f}",
            f"{row['mean_train_step_macs'] / 1e6:,.2f}",
            f"{row['ideal_speedup']:.3f}",
            run_lengths(row["tokens_per_block"]),
            f"{row['disk_bytes'] / 2**20:,.0f}",
            f"{row['state_bytes'] / 2**30:,.3g}",
            *((in_hours(row["device_hours"]),) if has_hours else ()),
        )
    return table


def _within(budget: dict[str, Any] | None) -> str:
    """Such as "1.003 x dense"."""
    return f"{budget['ratio']:.3f} x {budget['macs_of']}" if budget else ""


def run_lengths(counts: Sequence[int]) -> str:
    """`2 x 256, 23 x 128, 3 x 256`."""
    return ", ".join(f"{len([*run])} x {count}" for count, run in groupby(counts))


def _detection_table(found: Detection) -> Table:
    """A row for each comparison; columns on the uncertainty of spreads only where they were measured."""
    from rich.table import Column, Table

    is_measured = any(row.pairs for row in found.rows)
    titles = ["reference", "spread", f"power with\n{found.suite_seeds} seeds", "seeds"]
    if is_measured:
        titles += ["compared at", "pairs", "spread\nat most", "seeds\nat most"]
    table = Table(Column("row", no_wrap=True), *titles)
    for row in found.rows:
        if row.spread is None or row.spread_upper is None:
            table.add_row(row.row, row.reference, UNKNOWN)
            continue
        cells = [row.reference, f"{row.spread:.3g}", _share(row.power), _seeds(row.seeds)]
        if is_measured:
            cells += [row.compared_at or "", f"{row.pairs}", f"{row.spread_upper:.3g}", _seeds(row.seeds_upper)]
        table.add_row(row.row, *cells)
    return table


def _detection_in_words(found: Detection) -> list[str]:
    """What the table says of all rows, and what it depends on, a sentence per line."""
    known = [row for row in found.rows if row.spread is not None]
    seeds, upper = _most(row.seeds for row in known), _most(row.seeds_upper for row in known)
    which = "every row" if len(known) == len(found.rows) else f"{len(known)} of {len(found.rows)} rows"
    lines = [
        f"With {seeds} seeds, a difference of {found.difference:g} FID is found in {which} with a power of "
        f"{_share(found.target_power)} or more (paired t-tests at {_share(found.level)}, two-sided, Holm-adjusted over "
        f"{found.comparisons} rows)."
    ]
    if upper != seeds:
        bound = f"upper {_share(found.spread_confidence)} bound"
        lines.append(f"Few pairs leave a spread uncertain: with every spread at its {bound} it takes {upper} seeds.")
    differing = sorted({part for row in known for part in row.differing})
    if differing:
        lines.append(f"The run had other settings than this suite ({', '.join(differing)}): its spreads may not apply.")
    return lines


def _most(seeds: Iterable[int | None]) -> str:
    numbers = list(seeds)
    return _seeds(None if None in numbers else max(filter(None, numbers)))


def _seeds(number: int | None) -> str:
    from tread_bench.core.config.suite import MAX_SEEDS

    return f"more than {MAX_SEEDS:,}" if number is None else f"{number:,}"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.0f} %"
