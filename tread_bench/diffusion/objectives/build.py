"""Building the objective of a cell."""

from __future__ import annotations

from tread_bench.core.describe.objectives import ObjectiveOptions
from tread_bench.core.describe.plugins import named
from tread_bench.diffusion.objectives.base import Objective


def build_objective(options: ObjectiveOptions) -> Objective:
    """Build the objective that the options describe."""
    objective: Objective = named(options.family.builder)(options)
    return objective
