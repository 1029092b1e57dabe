"""DRWKV (Diffusion-RWKV): sizes and published names, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from tread_bench.core.describe.families import BackboneSpec, Family, mirrored_skips
from tread_bench.core.describe.routes import Route
from tread_bench.core.describe.selectors import TokenOrder, keeps_grid, selectors

MLP_RATIO = 4


class DRWKVSpec(BackboneSpec):
    """Sizes of Diffusion-RWKV (Fei et al., arXiv 2404.04478)."""

    depth: int = Field(
        13, ge=3, description="blocks: half of them push a long skip, one is in the middle, half pop one"
    )
    hidden: int = Field(384, ge=4)
    drop_path: float = Field(0.1, ge=0, lt=1, description="rate times block number over depth; in training only")
    learn_sigma: bool = Field(True, description="the last layer computes 2C channels; ddpm reads the second C")
    q_shift: Literal["neighbours", "self", "grid"] = Field(
        "neighbours",
        description="in place of a bypassed neighbour: zeros, the token itself, or the neighbour on the kept grid",
    )

    @model_validator(mode="after")
    def _sizes_divide(self) -> DRWKVSpec:
        if self.depth % 2 == 0:
            raise ValueError(
                f"depth {self.depth} must be odd: every long skip joins one block to another, around a middle one"
            )
        if self.hidden % 4:
            raise ValueError(
                f"hidden {self.hidden} must be a multiple of 4: a quarter of the channels for each direction"
            )
        return self


def check_routes(spec: DRWKVSpec, routes: Sequence[Route], selector: str) -> None:
    """Raise ValueError if q_shift="grid" is used with kept tokens that do not form a grid."""
    for route in routes:
        if spec.q_shift == "grid" and not keeps_grid(selector, route.rate, spec.grid):
            raise ValueError(
                f"route {route} with selector {selector!r} keeps tokens that do not form a grid, which q_shift='grid' "
                f"needs: {_way_out(route.rate, spec)}"
            )


def _way_out(rate: float, spec: DRWKVSpec) -> str:
    fitting = [name for name in selectors() if keeps_grid(name, rate, spec.grid)]
    return f"choose selector {', '.join(fitting)} or q_shift='neighbours'" if fitting else "choose q_shift='neighbours'"


_SIZES = {
    "S": {"depth": 13, "hidden": 384},
    "B": {"depth": 25, "hidden": 384},
    "M": {"depth": 25, "hidden": 512},
    "L": {"depth": 37, "hidden": 768},
    "H": {"depth": 37, "hidden": 1024},
}

DRWKV = Family(
    name="DRWKV",
    aliases=("RWKV",),
    spec=DRWKVSpec,
    published={f"DRWKV-{size}/{p}": {**dims, "patch": p} for size, dims in _SIZES.items() for p in (2, 4)},
    token_order=TokenOrder.GRID,
    long_skips=lambda spec: mirrored_skips(spec.depth),
    builder="tread_bench.backbones.rwkv.network:DRWKV",
    time_scale=1000.0,  # the release numbers its noise levels 0 to 999
    check_routes=check_routes,
)
