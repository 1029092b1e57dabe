"""Methods: how a training step walks the blocks, and what it adds to the loss."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tread_bench.config.base import Model


class DenseMethod(Model):
    """Every token passes every block."""

    name: Literal["dense"] = "dense"


class TreadMethod(Model):
    """Routed tokens bypass the blocks of their route and come back with their value (TREAD)."""

    name: Literal["tread"] = "tread"


MethodChoice = Annotated[DenseMethod | TreadMethod, Field(discriminator="name")]
