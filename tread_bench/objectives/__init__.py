"""Objectives by the names that a suite uses."""

from __future__ import annotations

from tread_bench.config import FlowObjective
from tread_bench.objectives.flow import Flow

__all__ = ["Flow", "build_objective"]


def build_objective(config: FlowObjective) -> Flow:
    """The cell's objective."""
    return Flow(config)
