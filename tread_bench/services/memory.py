"""`plan --memory`: what a training step keeps for its backward pass, predicted for a device that need not be there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tread_bench.cell.predicted import predict_activations
from tread_bench.core.describe.kernels import resolve_kernels
from tread_bench.core.errors import UserError
from tread_bench.suite.plan import Plan


def add_activations(rows: Sequence[dict[str, Any]], plan: Plan, device_type: str) -> dict[str, str]:
    """Add `activation_bytes` of one process of a cell to the rows of a plan that train; return why others have none.

    Args:
        device_type: "cpu" or "cuda", whose formulations count.

    Raises:
        UserError: a formulation that this type of device does not have.
    """
    compute, processes = plan.suite.compute, plan.suite.limits.processes_per_cell
    kernels = resolve_kernels(compute.kernels.model_dump(), device_type)
    device = torch.device(device_type, 0)
    problems = {}
    for row in rows:
        cell = plan.rows[row["row"]][0]
        if not cell.is_timed:
            continue
        try:
            activations = predict_activations(cell.cell, compute, kernels, device, processes)
            row["activation_bytes"] = activations.total
        except (UserError, RuntimeError) as error:
            problems[row["row"]] = str(error)
    return problems
