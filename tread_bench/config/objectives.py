"""Objectives: what a network is trained for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.config.base import Model


class FlowObjective(Model):
    """Flow matching on the linear path with velocity prediction: x_t = (1-t) x + t noise, v = noise - x."""

    name: Literal["flow"] = "flow"
    times: Literal["logit_normal", "uniform"] = Field("logit_normal", description="distribution of training times t")
