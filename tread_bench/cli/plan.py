"""`plan`: what a suite requests, without training."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.table import Column, Table

from tread_bench.cli.console import stdout_console
from tread_bench.cli.profile import run_lengths
from tread_bench.core.cell_costs import cell_cost
from tread_bench.suite.load import find_suite, load_plan
from tread_bench.suite.plan import plan_table


def show_plan(name: str, overrides: list[str], as_json: bool) -> None:
    """Print a row per row of the suite; with `as_json` the cells too."""
    plan = load_plan(find_suite(name), overrides)
    rows = plan_table(plan, cell_cost)
    if as_json:
        cells = [
            {"cell": c.id, "row": c.row, "seed": c.seed, "config": c.cell.model_dump(mode="json")} for c in plan.cells
        ]
        typer.echo(json.dumps({"suite": plan.suite.name, "rows": rows, "cells": cells}, indent=2))
        return
    console = stdout_console()
    console.print(f"{plan.suite.name}: {len(plan.cells)} cells, {len(rows)} rows, {len(plan.suite.seeds)} seeds")
    console.print(_table(rows))


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        Column("row", no_wrap=True),
        "routes",
        "cells",
        "parameters",
        "forward\nMMACs",
        "mean training\nstep MMACs",
        "ideal\nspeed-up",
        "tokens per block",
        "disk\nMiB",
    )
    for row in rows:
        table.add_row(
            row["row"],
            row["routes"],
            str(row["cells"]),
            f"{row['params']:,}",
            f"{row['forward_macs'] / 1e6:,.2f}",
            f"{row['mean_train_step_macs'] / 1e6:,.2f}",
            f"{row['ideal_speedup']:.3f}",
            run_lengths(row["tokens_per_block"]),
            f"{row['disk_bytes'] / 2**20:,.0f}",
        )
    return table
