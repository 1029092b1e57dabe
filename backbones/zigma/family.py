"""ZigMa: sizes and published names, without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tread_bench.core.describe.families import Family, TextSpec
from tread_bench.core.describe.mixers import MixerSize, both_ways
from tread_bench.core.describe.selectors import TokenOrder

if TYPE_CHECKING:
    MixerName = str
else:
    MixerName = Literal[both_ways()]

HEADS = 8  # width of the cross-attention, for any width of the network
HEAD_DIM = 64


class ZigMaSpec(TextSpec):
    """Sizes of ZigMa (Hu et al., "ZigMa: A DiT-style Zigzag Mamba Diffusion Model", ECCV 2024)."""

    depth: int = Field(24, ge=1)
    hidden: int = Field(368, ge=1)
    drop_path: float = Field(
        0.1, ge=0, lt=1, description="just above the last block's rate, linear from 0; in training only"
    )
    scan: Literal["zigzagN8", "v2"] = Field(
        "zigzagN8", description="eight continuous paths, cycled over the blocks; v2: row by row, both ways"
    )
    mixer: MixerName = Field("mamba", description="what mixes the tokens of a block")
    learned_positions: bool = Field(False, description="positions are learned from zero and added once")

    @property
    def directions(self) -> int:
        """Number of scans in one block."""
        return 2 if self.scan == "v2" else 1

    @property
    def mixer_size(self) -> MixerSize:
        """Sizes of a block's mixer."""
        return MixerSize(self.hidden, heads=1, depth=self.depth, directions=self.directions)


_SIZES = {
    "S": {"depth": 24, "hidden": 368},
    "B": {"depth": 24, "hidden": 768},
    "M": {"depth": 48, "hidden": 768},
    "L": {"depth": 48, "hidden": 1024},
    "H": {"depth": 48, "hidden": 1536},
    "XL": {"depth": 48, "hidden": 1536},  # called H in the release, XL in the paper
}
_TEXT = {"num_classes": 0, "context_tokens": 77, "context_dim": 768, "learned_positions": True, "channels": 3}

ZIGMA = Family(
    name="ZigMa",
    spec=ZigMaSpec,
    published={f"ZigMa-{size}/{p}": {**dims, "patch": p} for size, dims in _SIZES.items() for p in (1, 2, 4)}
    | {
        "ZigMa-B/1-T2I": {**_SIZES["B"], **_TEXT, "patch": 1},
        "ZigMa-Demo/1-T2I": {"depth": 18, "hidden": 640, **_TEXT, "patch": 1},  # as in the README
    },
    token_order=TokenOrder.SEQUENCE,
    builder="tread_bench.backbones.zigma.network:ZigMa",
    time_scale=1000.0,
)
