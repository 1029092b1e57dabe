"""ZigMa: sizes, published names and closed-form cost, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from backbones.families.dit import FREQUENCIES
from backbones.families.mamba import mixer_macs, mixer_params
from tread_bench.registry import BackboneSpec, Cost, Family, Macs, TokenOrder


class ZigMaSpec(BackboneSpec):
    """Sizes of ZigMa (Hu et al., "ZigMa: A DiT-style Zigzag Mamba Diffusion Model", ECCV 2024)."""

    depth: int = Field(24, ge=1)
    hidden: int = Field(368, ge=1)
    drop_path: float = Field(0.1, ge=0, lt=1, description="rate at the last block, linear from 0; in training only")
    scan: Literal["zigzagN8", "v2"] = Field(
        "zigzagN8", description="eight continuous paths, one per block in turn; v2: row by row, there and back"
    )

    @property
    def directions(self) -> int:
        """Scans of one block."""
        return 2 if self.scan == "v2" else 1


def zigma_cost(spec: ZigMaSpec, tokens: Sequence[int]) -> Cost:
    """Per block of T tokens a mixer, and 3 D^2 of modulation."""
    width, patch = spec.hidden, spec.patch**2 * spec.channels
    modulation = 3 * width * width
    blocks = tuple(mixer_macs(width, t, spec.directions) + Macs(linear=modulation) for t in tokens)
    time = FREQUENCIES * width + width * width
    params = (
        spec.depth * (mixer_params(width, spec.directions) + width + modulation + 3 * width)
        + (patch + 1) * width
        + time
        + 2 * width
        + (spec.num_classes + 1) * width * bool(spec.num_classes)
        + width
        + (width + 1) * patch
    )
    patches = spec.num_tokens * width * patch
    return Cost(params, params, blocks, Macs(linear=time + 2 * patches), inputs=FREQUENCIES * width + patches)


_SIZES = {
    "S": {"depth": 24, "hidden": 368},
    "B": {"depth": 24, "hidden": 768},
    "M": {"depth": 48, "hidden": 768},
    "L": {"depth": 48, "hidden": 1024},
    "H": {"depth": 48, "hidden": 1536},
    "XL": {"depth": 48, "hidden": 1536},  # H in the release, XL in the paper
}

ZIGMA = Family(
    name="ZigMa",
    spec=ZigMaSpec,
    published={f"ZigMa-{size}/{p}": {**dims, "patch": p} for size, dims in _SIZES.items() for p in (1, 2, 4)},
    token_order=TokenOrder.SEQUENCE,
    num_blocks=lambda spec: spec.depth,
    builder="backbones.zigma:ZigMa",
    time_scale=1000.0,
    cost=zigma_cost,
)
