"""`plan`: what a suite asks for, without training."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.table import Table

from tread_bench.plan import expand, plan_table
from tread_bench.suite_file import find_suite, load_suite


def show_plan(name: str, overrides: list[str], as_json: bool) -> None:
    """Print a row per row of the suite; with `as_json` the cells too."""
    plan = expand(load_suite(find_suite(name), overrides))
    rows = plan_table(plan)
    if as_json:
        cells = [
            {"cell": c.id, "row": c.row, "seed": c.seed, "config": c.cell.model_dump(mode="json")} for c in plan.cells
        ]
        typer.echo(json.dumps({"suite": plan.suite.name, "rows": rows, "cells": cells}, indent=2))
        return
    console = Console()
    console.print(f"[bold]{plan.suite.name}[/]: {len(plan.cells)} cells, {len(rows)} rows, {len(plan.suite.seeds)} seeds")
    console.print(rows)
