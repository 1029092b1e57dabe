"""Weights that another cell has trained: to evaluate without further training, or to start from."""

from __future__ import annotations

from pydantic import Field

from tread_bench.core.config.base import Model
from tread_bench.core.describe.guidance import Moment


class Evaluate(Model):
    """Whose weights are evaluated: those of another row's cell with the same seed."""

    row: str = Field(description="row that trained the weights")
    iteration: Moment | None = Field(
        None, description="one of its snapshots: iteration or share of its training; empty: the last iteration"
    )
    run: str | None = Field(None, description="run folder that holds the row; empty: this run")


class Start(Evaluate):
    """Whose weights a training starts from: those of another row's cell with the same seed."""
