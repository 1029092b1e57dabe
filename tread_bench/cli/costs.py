"""`plan`: what each row of a suite costs, as JSON values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tread_bench.core.describe.routes import format_routes
from tread_bench.core.numbers.costs import cell_cost, training_macs
from tread_bench.suite.plan import Plan, PlannedCell, checkpoint_bytes, disk_bytes

_MOMENT_BYTES = 4  # per parameter of a matrix that Muon changes, which has one moment instead of two


def plan_table(plan: Plan) -> list[dict[str, Any]]:
    """Compute the costs of each row of a plan, without training: one JSON-able mapping per row.

    Beside those that a record stores, per image, `training_macs` are those of a cell's whole training. `budget` is
    null, or says which row's `training_macs` this one trains to, and the actual ratio. `ideal_speedup` is the forward
    MACs of the dense network that its steps are timed in turn with, over its own. `disk_bytes` is an upper bound for
    the row's cells. A row that evaluates has no iterations of its own: 0. `tuning_cells` is the number of trainings
    that choose the row's learning rate, of rows that share them that of the first, and `tuning_macs` what they cost
    together.
    """
    macs: dict[str, int] = {}
    for name, (first, *_) in plan.rows.items():
        macs[name] = training_macs(first.cell) if first.cell.trains else 0
    table, tuning = [], tuning_by_row(plan)
    for name, cells in plan.rows.items():
        # Its network beside the dense one, and its training beside that of its budget.
        first, choosing = cells[0], tuning.get(name, [])
        cost, reference = cell_cost(first.cell), plan.timed_with(first)
        speedup = cost.ideal_speedup
        if reference is not None:
            speedup = cell_cost(reference.cell).dense_forward_macs / cost.forward_macs
        iterations, budget = 0, None
        if first.cell.trains:
            iterations, budget = first.cell.training.iterations, first.cell.training.budget

        # All that is known of it.
        row: dict[str, Any] = {
            "row": first.row,
            "cells": len(cells),
            "iterations": iterations,
            "budget": {"macs_of": budget.macs_of, "ratio": macs[name] / macs[budget.macs_of]} if budget else None,
            "backbone": first.cell.backbone.label,
            "method": first.cell.method.name,
            "routes": format_routes(first.cell.routes),
            "optimizer": first.cell.training.optimizer,
            **cost.model_dump(),
            "trained_params": cost.stored_params,
            "training_macs": macs[name],
            "ideal_speedup": speedup,
            "disk_bytes": sum(disk_bytes(cell, cost.stored_params) for cell in (*cells, *choosing)),
            "tuning_cells": len(choosing),
            "tuning_macs": sum(training_macs(cell.cell) for cell in choosing),
        }
        table.append(row)
    return table


def tuning_by_row(plan: Plan) -> dict[str, list[PlannedCell]]:
    """Return the trainings that choose the learning rates of rows; of rows that share them, the first has them."""
    found: dict[str, list[PlannedCell]] = {}
    counted = set[str]()
    for row in plan.tuning:
        found[row] = []
        for cell in plan.tuning_cells([row]):
            if cell.id not in counted:
                counted.add(cell.id)
                found[row].append(cell)
    return found


def add_state(rows: Sequence[dict[str, Any]], plan: Plan) -> None:
    """Add `state_bytes` to the rows of a plan: weights, gradients, moments and average of a training."""
    for row in rows:
        cell = plan.rows[row["row"]][0].cell
        row["state_bytes"] = checkpoint_bytes(row["trained_params"])
        row["state_bytes"] += 4 * (row["params"] + row["auxiliary_params"])  # gradients, or weights that are frozen
        if cell.training.optimizer == "muon":
            from tread_bench.model.matrices import layers_over_tokens  # needs torch

            shapes = layers_over_tokens(cell.backbone.family(), cell.backbone.spec(cell.data)).values()
            row["state_bytes"] -= _MOMENT_BYTES * sum(map(math.prod, shapes))
