"""`plan`: what a suite requests, without training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.table import Column, Table

from tread_bench.cli.show.console import stdout_console
from tread_bench.cli.show.profile import run_lengths
from tread_bench.core.numbers.cell_costs import cell_cost
from tread_bench.services.detect_request import DetectRequest
from tread_bench.services.hours import add_hours, hours_in_words, in_hours, pace_of
from tread_bench.suite.files import Look
from tread_bench.suite.load import find_suite, load_plan
from tread_bench.suite.plan import Plan, PlannedCell, plan_table


def show_plan(
    name: str,
    overrides: list[str],
    as_json: bool,
    request: DetectRequest | None = None,
    step_time: str | None = None,
    data_root: Path | None = None,
) -> None:
    """Print a row per row of the suite, and what is missing to run it; with `as_json` the cells too.

    Args:
        request: asks how many seeds find a difference.
        step_time: milliseconds, or a run that measured them, for the time that the suite takes.
    """
    # Costs, hours and seeds. Files that are there are checked; others are listed.
    path = find_suite(name)
    plan = load_plan(path, overrides, data_root=data_root, look=Look.HEADERS, allows_missing=True)
    rows = plan_table(plan, cell_cost)
    missing = [str(problem) for problem in plan.missing]
    hours, pace = 0.0, None
    if step_time is not None:
        pace = pace_of(step_time, plan, rows)
        hours = add_hours(rows, plan, pace)
    detection = None
    if request is not None:
        from tread_bench.cli.show.detect import detect  # needs scipy, which takes longer to load than a plan to show

        detection = detect(plan, request)

    # As JSON, or in words.
    if as_json:
        document: dict[str, Any] = {"suite": plan.suite.name, "rows": rows, "cells": [], "missing": missing}
        if pace is not None:
            document["device_hours"] = hours
        if detection is not None:
            document["detection"] = detection.as_json()
        typer.echo(_with_cells(json.dumps(document, indent=2), plan))
        return
    console = stdout_console()
    console.print(f"{plan.suite.name}: {len(plan.cells)} cells, {len(rows)} rows, {len(plan.suite.seeds)} seeds")
    console.print(_table(rows))
    if pace is not None:
        for line in hours_in_words(hours, plan, pace):
            typer.echo(line)
    if missing:
        typer.echo("\n".join(["missing, and needed to run it:", *missing]))
    if detection is not None:
        from tread_bench.cli.show.detect import detection_in_words, detection_table

        console.print(detection_table(detection))
        for line in detection_in_words(detection):
            typer.echo(line)


def _with_cells(document: str, plan: Plan) -> str:
    """The indented JSON of a plan with its cells; a configuration, which the seeds of a row share, is encoded once."""
    cells = ",\n    ".join(cell for row in plan.rows.values() for cell in _cells_as_json(row))
    return document.replace('\n  "cells": []', f'\n  "cells": [\n    {cells}\n  ]')


def _cells_as_json(cells: list[PlannedCell]) -> Iterator[str]:
    row = json.dumps(cells[0].row)
    config = json.dumps(cells[0].cell.model_dump(mode="json"), indent=2)
    config = config.replace("\n", "\n      ")  # no text in JSON has a line break, so these are those between its lines
    for cell in cells:
        about = f'"cell": {json.dumps(cell.id)},\n      "row": {row},\n      "seed": {cell.seed}'
        yield f'{{\n      {about},\n      "config": {config}\n    }}'


def _table(rows: list[dict[str, Any]]) -> Table:
    # The columns; those of budgets only where some row has one.
    has_budgets = any(row["budget"] for row in rows)
    has_hours = any("device_hours" in row for row in rows)
    table = Table(
        Column("row", no_wrap=True),
        "routes",
        "cells",
        *(("iterations", "training MACs,\nof its budget") if has_budgets else ()),
        "parameters",
        "forward\nMMACs",
        "mean training\nstep MMACs",
        "ideal\nspeed-up",
        "tokens per block",
        "disk\nMiB",
        *(("device-\nhours",) if has_hours else ()),
    )

    # A line per row of the suite.
    for row in rows:
        table.add_row(
            row["row"],
            row["routes"],
            str(row["cells"]),
            *((f"{row['iterations']:,}", _within(row["budget"])) if has_budgets else ()),
            f"{row['params']:,}",
            f"{row['forward_macs'] / 1e6:,.2f}",
            f"{row['mean_train_step_macs'] / 1e6:,.2f}",
            f"{row['ideal_speedup']:.3f}",
            run_lengths(row["tokens_per_block"]),
            f"{row['disk_bytes'] / 2**20:,.0f}",
            *((in_hours(row["device_hours"]),) if has_hours else ()),
        )
    return table


def _within(budget: dict[str, Any] | None) -> str:
    """Such as "1.003 x dense"."""
    return f"{budget['ratio']:.3f} x {budget['macs_of']}" if budget else ""
