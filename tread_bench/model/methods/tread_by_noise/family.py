"""Description of routes whose rates depend on the noise level, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from tread_bench.core.config.base import Float
from tread_bench.core.describe.methods import Evaluated, MethodFamily, MethodOptions, Tokens
from tread_bench.core.describe.routes import Route
from tread_bench.core.problems import Problem
from tread_bench.model.methods.long_skips import halved_skips

if TYPE_CHECKING:
    from tread_bench.core.config.routed import Setting


class TreadByNoiseOptions(MethodOptions):
    """TREAD with rates that depend on the noise level, such as more where there is more noise (after DiffCR)."""

    name: Literal["tread_by_noise"] = "tread_by_noise"
    shares: tuple[Annotated[Float, Field(ge=0, le=1)], ...] = Field(
        (0.25, 0.5, 0.75, 1.0),
        min_length=2,
        max_length=4,
        description="shares of each route's rate for equal parts of the training times, the one of least noise first",
    )

    def alternatives(self, routes: tuple[Route, ...], num_tokens: int) -> tuple[tuple[Route, ...], ...]:
        return tuple(tuple(route.at_share(share) for route in routes) for share in self.shares)


def _check(setting: Setting) -> Iterator[Problem]:
    yield from halved_skips(setting)
    try:
        setting.cell.objective.time_ranks(seed=0, first=0, count=1)
    except NotImplementedError as error:
        yield Problem(f"method tread_by_noise: {error}; choose another, or method tread", ("objective",))


TREAD_BY_NOISE = MethodFamily(
    name="tread_by_noise",
    options=TreadByNoiseOptions,
    builder="tread_bench.model.methods.tread_by_noise.network:TreadByNoise",
    tokens=Tokens.BYPASS_VARYING,
    evaluated=Evaluated.DENSE,
    has_modules=False,
    chooses_tokens=False,
    has_shallow_path=False,
    check=_check,
)
