"""Methods: how a training step walks the blocks, and what it adds to the loss."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tread_bench.core.config.base import Float, Int, Model, Share


class DenseMethod(Model):
    """Every token passes every block."""

    name: Literal["dense"] = "dense"


class TreadMethod(Model):
    """Routed tokens bypass the blocks of their route and come back with their value (TREAD)."""

    name: Literal["tread"] = "tread"
    detach: bool = Field(False, description="no gradient flows through a bypass")
    float32_after_route: bool = Field(
        False, description="the block after a route's end runs outside autocast, as released; nothing without autocast"
    )


class MaskMethod(Model):
    """Tokens are dropped for all blocks; mask tokens and a small decoder stand in for them (MaskDiT)."""

    name: Literal["mask"] = "mask"
    decoder_width: Int = Field(
        512, ge=4, multiple_of=4, description="width of the decoder, as published; state it for backbones below DiT-S"
    )
    decoder_depth: Int = Field(8, ge=1, description="blocks of the decoder, as published")
    decoder_heads: Int = Field(16, ge=1, description="its attention heads, as published; must divide its width")
    mae_weight: Float = Field(0.1, ge=0, description="weight of the loss on the dropped tokens")


class DropMethod(Model):
    """Tokens are dropped inside their route; a learned mask token comes back in their place."""

    name: Literal["drop"] = "drop"


class SprintMethod(Model):
    """Kept tokens pass the route, mask tokens fill up, and a linear layer fuses them with the dense path (SPRINT)."""

    name: Literal["sprint"] = "sprint"
    path_drop: Share = Field(0.1, description="share of the training samples that lose the whole deep path")


class ModMethod(Model):
    """A learned router lets the top tokens pass each block of a route; the others skip that block (MoD)."""

    name: Literal["mod"] = "mod"


class LayerSkipMethod(Model):
    """All tokens of a sample skip a route's blocks, with the rate as probability: a control of ours."""

    name: Literal["layer_skip"] = "layer_skip"


MethodChoice = Annotated[
    DenseMethod | TreadMethod | MaskMethod | DropMethod | SprintMethod | ModMethod | LayerSkipMethod,
    Field(discriminator="name"),
]
