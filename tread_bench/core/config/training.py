"""Optimisation settings of a cell, and the weights that another cell has trained."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Literal

from pydantic import Field

from tread_bench.core.config.base import Float, Int, Model, Share, is_unused, or_text
from tread_bench.core.describe.guidance import Moment

BUDGET_TOLERANCE = 0.03  # by which the MACs of a training may differ from its budget


class KeptWeights(Model):
    """Weights of another row's cell with the same seed."""

    row: str = Field(description="row that trained the weights")
    iteration: Moment | None = Field(None, description="one of its snapshots, as iteration or share; empty: the last")
    run: str | None = Field(None, description="run folder that holds the row; empty: this run")


class Evaluate(KeptWeights):
    """Whose weights are evaluated: those of another row's cell with the same seed."""

    options: dict[str, Any] = Field({}, exclude_if=is_unused, description="of the row's method, to evaluate it by")

    def __hash__(self) -> int:
        return hash((self.row, self.iteration, self.run, json.dumps(self.options, sort_keys=True)))


class Start(KeptWeights):
    """Whose weights a training starts from: those of another row's cell with the same seed."""


class Budget(Model):
    """How long a row trains, by what its training costs."""

    macs_of: str = Field(description="row whose total training MACs this one trains to; it gives its own iterations")


class _Decay(Model):
    """How the learning rate falls to zero at the end of training."""

    @property
    def span(self) -> float:
        """Share of the iterations, at the end, over which it falls."""
        return 1.0

    def factor(self, left: float) -> float:
        """Return the share of the learning rate where the share `left` of its fall is still to come."""
        return left


class Constant(_Decay):
    """The learning rate does not fall."""

    name: Literal["constant"] = "constant"

    @property
    def span(self) -> float:
        return 0.0


class Linear(_Decay):
    """It falls linearly, from the first iteration on."""

    name: Literal["linear"] = "linear"


class Cosine(_Decay):
    """It falls by half a cosine, from the first iteration on."""

    name: Literal["cosine"] = "cosine"

    def factor(self, left: float) -> float:
        return (1 - math.cos(math.pi * left)) / 2


class Wsd(_Decay):
    """Warm-up, stable, decay: linearly, at the end alone."""

    name: Literal["wsd"] = "wsd"
    share: Float = Field(0.2, gt=0, lt=1, description="share of the iterations, at the end, over which it falls")

    @property
    def span(self) -> float:
        return self.share


CONSTANT = Constant()
_Decays = Annotated[Constant | Linear | Cosine | Wsd, Field(discriminator="name")]
Decay = Annotated[_Decays, or_text(_Decays, "name", Literal["constant", "linear", "cosine", "wsd"])]


class Lora(Model):
    """Adapters that are trained while all other weights stay as they are (LoRA, arXiv 2106.09685)."""

    rank: Int = Field(ge=1, description="of the product of two matrices that each linear layer over tokens gets")


class Training(Model):
    """Optimisation settings of a cell."""

    iterations: Int = Field(ge=0, description="optimiser steps; 0: only costs, speed and memory are measured")
    batch: Int = Field(64, ge=1, description="images per step, over all processes")
    optimizer: Literal["adamw", "muon"] = Field(
        "adamw", exclude_if=lambda name: name == "adamw", description="muon: for the matrices of blocks"
    )
    learning_rate: Float = Field(1e-4, gt=0)
    betas: tuple[Share, Share] = (0.9, 0.999)
    weight_decay: Float = Field(0.0, ge=0)
    ema_decay: Float = Field(0.9999, ge=0, lt=1, description="upper bound; warmed up as (1 + step) / (10 + step)")
    label_dropout: Float = Field(0.1, ge=0, le=1, description="share of samples trained without their label or caption")
    gradient_clip: Float | None = Field(None, gt=0, description="largest gradient norm; empty: no clipping")
    warmup: Int = Field(0, ge=0, description="steps over which the learning rate rises linearly")
    decay: Decay = Field(
        CONSTANT, exclude_if=lambda decay: decay == CONSTANT, description="how the learning rate falls to zero"
    )
    checkpoint_every: Int = Field(500, ge=1, description="steps between checkpoints, from which a cell resumes")
    snapshots: tuple[Moment, ...] = Field((), description="iterations or shares at which the weights are kept")
    start: Annotated[Start, or_text(Start, "row")] | None = Field(
        None, exclude_if=is_unused, description="row whose kept weights it starts from; empty: drawn weights"
    )
    lora: Lora | None = Field(None, exclude_if=is_unused, description="adapters, which alone are trained; empty: none")
    budget: Budget | None = Field(None, exclude_if=is_unused, description="what the iterations follow from")


class RoutingSchedule(Model):
    """The share of the routes' rates over the course of training."""

    warmup: Share = Field(0.0, description="share of the iterations over which every rate rises linearly from 0")
    until: Float = Field(1.0, gt=0, le=1, description="share of the iterations after which training is dense; 1: never")
    dense_learning_rate: Float | None = Field(None, gt=0, description="that of the dense part; empty: unchanged")

    @property
    def depends_on_length(self) -> bool:
        """Whether a step's share depends on how long the whole training is."""
        return self != RoutingSchedule()
