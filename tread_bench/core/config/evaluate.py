"""Weights that another cell has trained: to evaluate without further training, or to start from."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from tread_bench.core.config.base import Model, is_unused
from tread_bench.core.describe.guidance import Moment


class KeptWeights(Model):
    """Weights of another row's cell with the same seed."""

    row: str = Field(description="row that trained the weights")
    iteration: Moment | None = Field(
        None, description="one of its snapshots: iteration or share of its training; empty: the last iteration"
    )
    run: str | None = Field(None, description="run folder that holds the row; empty: this run")


class Evaluate(KeptWeights):
    """Whose weights are evaluated: those of another row's cell with the same seed."""

    options: dict[str, Any] = Field(
        default_factory=dict,
        exclude_if=is_unused,
        description="options of the row's method that change its evaluation alone, such as ELIT's budget",
    )

    def __hash__(self) -> int:
        return hash((self.row, self.iteration, self.run, json.dumps(self.options, sort_keys=True)))


class Start(KeptWeights):
    """Whose weights a training starts from: those of another row's cell with the same seed."""
