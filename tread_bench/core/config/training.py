"""Optimisation settings of a cell."""

from __future__ import annotations

from pydantic import Field

from tread_bench.core.config.base import Float, Int, Model, Share, is_unused
from tread_bench.core.describe.guidance import Moment

BUDGET_TOLERANCE = 0.03  # by which the MACs of a training may differ from its budget


class Budget(Model):
    """How long a row trains, by what its training costs."""

    macs_of: str = Field(description="row whose total training MACs this one trains to; it gives its own iterations")


class Training(Model):
    """Optimisation settings of a cell."""

    iterations: Int = Field(ge=0, description="optimiser steps; 0: only costs, speed and memory are measured")
    batch: Int = Field(64, ge=1, description="images per step, over all processes")
    learning_rate: Float = Field(1e-4, gt=0)
    betas: tuple[Share, Share] = (0.9, 0.999)
    weight_decay: Float = Field(0.0, ge=0)
    ema_decay: Float = Field(0.9999, ge=0, lt=1, description="upper bound; warmed up as (1 + step) / (10 + step)")
    label_dropout: Float = Field(0.1, ge=0, le=1, description="share of samples trained without their label or caption")
    gradient_clip: Float | None = Field(None, gt=0, description="largest gradient norm; empty: no clipping")
    warmup: Int = Field(0, ge=0, description="steps over which the learning rate rises linearly")
    checkpoint_every: Int = Field(
        500, ge=1, description="steps between checkpoints, from which an interrupted cell resumes"
    )
    snapshots: tuple[Moment, ...] = Field(
        (),
        description="iterations, or shares of the training, at which the evaluated weights are kept; always at the end",
    )
    budget: Budget | None = Field(
        None, exclude_if=is_unused, description="what determines the iterations; empty: they are given"
    )


class RoutingSchedule(Model):
    """The share of the routes' rates over the course of training."""

    warmup: Share = Field(0.0, description="share of the iterations over which every rate rises linearly from 0")
    until: Float = Field(1.0, gt=0, le=1, description="share of the iterations after which training is dense; 1: never")
    dense_learning_rate: Float | None = Field(
        None, gt=0, description="learning rate of the dense part; empty: unchanged"
    )

    @property
    def depends_on_length(self) -> bool:
        """Whether a step's share depends on how long the whole training is."""
        return self != RoutingSchedule()
