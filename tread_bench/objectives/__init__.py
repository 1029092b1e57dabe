"""Objectives by the names that a suite uses."""

from __future__ import annotations

from tread_bench.config import FlowObjective
from tread_bench.objectives.base import Objective
from tread_bench.objectives.flow import Flow

__all__ = ["Flow", "Objective", "build_objective"]


def build_objective(config: FlowObjective) -> Objective:
    """The cell's objective."""
    return Flow(config)
