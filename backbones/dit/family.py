"""DiT and SiT: sizes, published names and closed-form cost, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from tread_bench.core.describe.families import Cost, Family, LastLayer, Macs, TextSpec
from tread_bench.core.describe.selectors import TokenOrder


class DiTSpec(TextSpec):
    """Sizes of DiT (Peebles and Xie, ICCV 2023) and SiT (Ma et al., ECCV 2024)."""

    depth: int = Field(12, ge=1)
    hidden: int = Field(384, ge=4)
    heads: int = Field(6, ge=1)
    mlp_ratio: float = Field(4.0, gt=0)
    attention: Literal["softmax", "linear"] = Field(
        "softmax", description="linear: ReLU of queries and keys in place of the softmax, in time linear in the tokens"
    )
    learn_sigma: bool = Field(True, description="the last layer computes 2C channels; ddpm reads the second C")

    @model_validator(mode="after")
    def _widths_divide(self) -> DiTSpec:
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} must be a multiple of heads {self.heads}")
        if self.hidden % 4:
            raise ValueError(f"hidden {self.hidden} must be a multiple of 4: sines and cosines of rows and columns")
        return self

    @property
    def out_channels(self) -> int:
        return self.channels * (2 if self.learn_sigma else 1)


FREQUENCIES = 256  # number of sinusoids in the time embedding


def dit_cost(spec: DiTSpec, tokens: Sequence[int]) -> Cost:
    """Per block of T tokens: 12 T D^2 + 6 D^2 linear (at MLP ratio 4) and 2 T^2 D attention MACs (DiT, appendix).

    Linear attention has 2 T D (D / heads + 1) in place of those.

    With M tokens of text, 2 (T + M) D^2 more for the projections of the cross-attention, and 2 T M D for its products.
    """
    # Blocks.
    width = spec.hidden
    mlp = int(width * spec.mlp_ratio)
    patch_in = spec.patch**2 * spec.channels
    patch_out = spec.patch**2 * spec.out_channels
    per_token = 4 * width * width + 2 * width * mlp
    head = width // spec.heads
    blocks = tuple(
        Macs(
            linear=t * per_token + 6 * width * width,
            attention=2 * t * width * (head + 1 if spec.attention == "linear" else t),
        )
        + cross_attention_macs(spec, width, width, t)
        for t in tokens
    )

    # Outside the blocks.
    time = FREQUENCIES * width + width * width
    text = spec.context_dim * width if spec.context_tokens else 0
    patches = spec.num_tokens * width * patch_in
    last_layer = LastLayer(
        width,
        condition=width,
        params=2 * width * width + 2 * width + (width + 1) * patch_out,
        macs=2 * width * width + spec.num_tokens * width * patch_out,
    )
    text_in = spec.context_tokens * text
    outside = Macs(linear=time + patches + text_in + last_layer.macs)
    inputs = FREQUENCIES * width + patches + text_in

    # Parameters.
    block_params = per_token + 6 * width * width + (4 * width) + (mlp + width) + 6 * width
    cross_attention = (4 * width * width + 4 * width) * bool(text)
    trainable = (
        spec.depth * (block_params + cross_attention)
        + (patch_in + 1) * width
        + time
        + 2 * width
        + (spec.num_classes + 1) * width * bool(spec.num_classes)
        + (text + width) * bool(text)
        + last_layer.params
    )
    positions = spec.num_tokens * width  # fixed, not learned
    return Cost(trainable + positions, trainable, blocks, outside, inputs, last_layer)


def cross_attention_macs(spec: TextSpec, width: int, inner: int, tokens: int) -> Macs:
    """Count the projections of T queries and outputs and M keys and values, and 2 T M products per inner channel."""
    text = spec.context_tokens
    if not text:
        return Macs()
    return Macs(linear=2 * (tokens + text) * width * inner, attention=2 * tokens * text * inner)


_DIT_SIZES = {
    "S": {"depth": 12, "hidden": 384, "heads": 6},
    "B": {"depth": 12, "hidden": 768, "heads": 12},
    "L": {"depth": 24, "hidden": 1024, "heads": 16},
    "XL": {"depth": 28, "hidden": 1152, "heads": 16},
}


def _dit_family(name: str) -> Family:
    return Family(
        name=name,
        spec=DiTSpec,
        published={f"{name}-{size}/{p}": {**dims, "patch": p} for size, dims in _DIT_SIZES.items() for p in (2, 4, 8)},
        token_order=TokenOrder.SET,
        num_blocks=lambda spec: spec.depth,
        builder="tread_bench.backbones.dit.network:DiT",
        cost=dit_cost,
    )


DIT = _dit_family("DiT")
SIT = _dit_family("SiT")
