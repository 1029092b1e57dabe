"""The command `plan`: what a suite requests, without training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tread_bench.cli.options import DataRootOption, JsonOption, SetOption, SuiteArgument, option

if TYPE_CHECKING:
    from rich.table import Table

    from tread_bench.suite.plan import Plan


def plan(
    suite: SuiteArgument,
    overrides: SetOption = [],  # noqa: B006
    step_time: Annotated[
        str | None,
        option(
            "--step-time",
            "add the hours that it takes; give the ms of a step of its first row, or a run that timed it",
            metavar="MS|RUN",
        ),
    ] = None,
    limit: Annotated[
        float | None, option("--hours", "for --step-time: which seeds and lengths fit into so many?", metavar="H")
    ] = None,
    run_with_spread: Annotated[
        Path | None, option("--from", "for --hours: a run that shows how much routes vary", metavar="RUN")
    ] = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the cells, parameters, MACs, memory of their state, disk and ideal speed-ups of a suite, without training.

    Files that are there are checked by their headers and labels; what is missing is listed.
    """
    from tread_bench.cli.console import stdout_console
    from tread_bench.cli.costs import add_state, plan_table
    from tread_bench.cli.hours import add_hours, hours_in_words, pace_of, within, within_in_words
    from tread_bench.core.errors import UserError
    from tread_bench.suite.decidable import OBSTACLES, obstacles
    from tread_bench.suite.files import Look
    from tread_bench.suite.load import find_suite, load_plan

    if limit is None and run_with_spread is not None:
        raise UserError(f"--from {run_with_spread}: shows which differences --hours can find; add --hours H")
    if limit is not None and step_time is None:
        raise UserError(f"--hours {limit:g}: how long a step takes is not known; add --step-time MS, or a run")

    def load(look: Look, more: Sequence[str] = ()) -> Plan:
        return load_plan(find_suite(suite), [*overrides, *more], data_root=data_root, look=look, allows_missing=True)

    # Costs and hours.
    study = load(Look.HEADERS)
    rows = plan_table(study)
    add_state(rows, study)
    if step_time is not None:
        pace = pace_of(step_time, study, rows)
        hours = add_hours(rows, study, pace)
        if limit is not None:
            fitting = within(limit, study, pace, lambda more: load(Look.NOT_AT_ALL, more), run_with_spread)

    # What keeps it from a decision, what it lacks, and what was stated before.
    hindered = [str(problem) for problem in obstacles(study)]
    if hindered:
        typer.echo("\n".join([OBSTACLES, *hindered]), err=True)
    missing = [str(problem) for problem in study.missing]
    registered = study.registered

    if as_json:
        cells = []
        for row in study.rows.values():
            config = row[0].cell.model_dump(mode="json")  # which the seeds of a row share
            cells += [{"cell": cell.id, "row": cell.row, "seed": cell.seed, "config": config} for cell in row]
        document: dict[str, Any] = {"suite": study.suite.name, "rows": rows, "cells": cells}
        document |= {"missing": missing, "obstacles": hindered}
        if registered:
            document["hypothesis"] = registered.model_dump(mode="json")
        if step_time is not None:
            document["device_hours"] = hours
        if limit is not None:
            document["within"] = fitting
        typer.echo(json.dumps(document, indent=2))
        return

    # The rows.
    console = stdout_console()
    console.print(f"{study.suite.name}: {len(study.cells)} cells, {len(rows)} rows, {len(study.suite.seeds)} seeds")
    if registered:
        stated = registered.hypothesis
        rule = f"test {stated.test}, margin a ratio of {stated.margin:g}, stopped after {stated.stop} seeds"
        typer.echo(f"hypothesis {registered.sha256[:10]}: {stated.claim} ({rule})")
    if tuning := sum(row["tuning_cells"] for row in rows):
        macs = sum(row["tuning_macs"] for row in rows)
        share = macs / (macs + sum(row["cells"] * row["training_macs"] for row in rows))
        console.print(f"before them, {tuning} cells choose learning rates: {share:.0%} of all training MACs")
    console.print(_table(rows))

    # What was asked about them.
    if step_time is not None:
        typer.echo("\n".join(hours_in_words(hours, study, pace)))
    if limit is not None:
        typer.echo("\n".join(within_in_words(limit, fitting)))
    if missing:
        typer.echo("\n".join(["missing, and needed to run it:", *missing]))


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Column, Table

    from tread_bench.cli.hours import in_hours

    # A line per row; columns of budgets and other optimisers only where some row has one, that of hours on request.
    has_budgets = any(row["budget"] for row in rows)
    has_optimizers = any(row["optimizer"] != "adamw" for row in rows)
    lines = []
    for row in rows:
        line = {"row": row["row"], "routes": row["routes"]}
        if has_optimizers:
            line["optimiser"] = row["optimizer"]
        line["cells"] = str(row["cells"])
        if has_budgets:
            budget = row["budget"]
            line["iterations"] = f"{row['iterations']:,}"
            line["training MACs,\nof its budget"] = f"{budget['ratio']:.3f} x {budget['macs_of']}" if budget else ""
        line |= {
            "parameters": f"{row['params']:,}",
            "forward\nMMACs": f"{row['forward_macs'] / 1e6:,.2f}",
            "mean training\nstep MMACs": f"{row['mean_train_step_macs'] / 1e6:,.2f}",
            "ideal\nspeed-up": f"{row['ideal_speedup']:.3f}",
            "tokens per block": run_lengths(row["tokens_per_block"]),
            "disk\nMiB": f"{row['disk_bytes'] / 2**20:,.0f}",
            "state\nGiB": f"{row['state_bytes'] / 2**30:,.3g}",
        }
        if "device_hours" in row:
            line["device-\nhours"] = in_hours(row["device_hours"])
        lines.append(line)
    name, *others = lines[0]
    table = Table(Column(name, no_wrap=True), *others)
    for line in lines:
        table.add_row(*line.values())
    return table


def run_lengths(counts: Sequence[int]) -> str:
    """`2 x 256, 23 x 128, 3 x 256`."""
    return ", ".join(f"{len([*run])} x {count}" for count, run in groupby(counts))
