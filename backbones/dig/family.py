"""DiG: sizes and published names, without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from tread_bench.backbones.mixers.attention.family import ATTENTION
from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.mixers import MixerFamily, MixerSize, mixers
from tread_bench.core.describe.selectors import TokenOrder

if TYPE_CHECKING:
    MixerName = str
else:
    MixerName = Literal[tuple(mixers())]

KERNEL = 3  # side of the depthwise convolution behind every block


class DiGSpec(BackboneSpec):
    """Sizes of DiG (Zhu et al., CVPR 2025, arXiv 2405.18428)."""

    depth: int = Field(12, ge=1)
    hidden: int = Field(384, ge=4)
    heads: int = Field(6, ge=1)
    mixer: MixerName = Field("gla", description="what a block has in place of attention")
    attention_every: int | None = Field(
        None, ge=2, description="softmax attention in place of the mixer in every n-th block, from the n-th on"
    )
    decay_skipped: bool = Field(
        False, description="the state also decays for the tokens that were skipped before a token, by that token's gate"
    )
    learn_sigma: bool = Field(True, description="the last layer computes 2C channels; ddpm reads the second C")

    @model_validator(mode="after")
    def _sizes_fit(self) -> DiGSpec:
        if self.hidden % 4:
            raise ValueError(f"hidden {self.hidden} must be a multiple of 4: sines and cosines of rows and columns")
        if self.attention_every is not None and self.attention_every > self.depth:
            raise ValueError(f"attention_every {self.attention_every} must be at most depth {self.depth}")
        for block in range(self.depth):
            if broken := self.mixer_at(block).rule(self.mixer_size(block)):
                raise ValueError(broken)
        if self.decay_skipped and not self.mixer_family.gates_by_token:
            able = ", ".join(name for name, one in mixers().items() if one.gates_by_token)
            raise ValueError(f"decay_skipped needs a mixer with a gate of its own per token, not {self.mixer}: {able}")
        return self

    @property
    def mixer_family(self) -> MixerFamily:
        """The description of the mixer."""
        return mixers.find(self.mixer)

    def mixer_at(self, block: int) -> MixerFamily:
        """Return the description of what a block has for a mixer."""
        is_attention = self.attention_every is not None and (block + 1) % self.attention_every == 0
        return ATTENTION if is_attention else self.mixer_family

    @property
    def mlp_hidden(self) -> int:
        """Two thirds of four times the width, rounded up to a multiple of 256."""
        return -(-int(self.hidden * 4 * 2 / 3) // 256) * 256

    def mixer_size(self, block: int) -> MixerSize:
        """Sizes of a block's mixer."""
        return MixerSize(self.hidden, self.heads, block, self.depth)


_SIZES = {
    "S": {"depth": 12, "hidden": 384, "heads": 6},
    "B": {"depth": 12, "hidden": 768, "heads": 12},
    "L": {"depth": 24, "hidden": 1024, "heads": 16},
    "XL": {"depth": 28, "hidden": 1152, "heads": 18},
}

DIG = Family(
    name="DiG",
    spec=DiGSpec,
    published={f"DiG-{size}/2": {**dims, "patch": 2} for size, dims in _SIZES.items()},
    token_order=TokenOrder.GRID,
    builder="tread_bench.backbones.dig.network:DiG",
)
