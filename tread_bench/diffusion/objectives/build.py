"""Objectives by the names that a suite uses."""

from __future__ import annotations

from tread_bench.core.config.objectives import EdmObjective, ObjectiveChoice
from tread_bench.diffusion.objectives.base import Objective
from tread_bench.diffusion.objectives.edm import Edm
from tread_bench.diffusion.objectives.flow import Flow


def build_objective(config: ObjectiveChoice) -> Objective:
    """The cell's objective."""
    return Edm(config) if isinstance(config, EdmObjective) else Flow(config)
