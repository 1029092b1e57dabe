"""Lookup of guidance rules by name, through entry points of the group `tread_bench.guidance`.

A rule states which two branches are combined, and at which times. It needs no torch: its options state what the rest of
the package needs to know about it; nobody compares its name.

Guidance as one formula over two branches: D = D_weak + s (D_strong - D_weak), evaluated at each call.

A branch is the network under changed conditions: without its label, with tokens that bypass blocks, with other weights,
or without its middle blocks. Outputs are combined at one (x, t). A flow velocity, an EDM denoiser and the slope of the
probability flow are affine in the output at fixed (x, t), and the two factors, s and 1 - s, sum to 1, so combining any
of the four gives the same result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from tread_bench.core.config.base import Float, Int, Options, no_boolean
from tread_bench.core.describe.plugins import Description, Kind
from tread_bench.core.describe.routes import Route


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the two predictions that guidance combines.

    Args:
        name: name of its random stream.
        label: whether it is conditioned on the label or caption.
        routes: routes whose tokens bypass blocks, with the rate at the first step.
        decays: whether that rate falls to 0 over the steps, following half a cosine.
        other_weights: whether it uses the weights of the weak network instead of the evaluated network.
        drops_path: whether every token bypasses the blocks of `routes`; without routes, the method's own shallow path
            is used.
    """

    name: str
    label: bool = True
    routes: tuple[Route, ...] = ()
    decays: bool = False
    other_weights: bool = False
    drops_path: bool = False

    def routes_at(self, step: int, steps: int) -> tuple[Route, ...]:
        """Return the routes at step `step` (from 0) of `steps`, without routes at rate 0."""
        share = (1 + math.cos(math.pi * step / steps)) / 2 if self.decays else 1.0
        if self.drops_path:
            share = 0.0
        return tuple(route.at_share(share) for route in self.routes if route.rate * share)

    @property
    def dropped_blocks(self) -> frozenset[int]:
        """Blocks that all tokens bypass."""
        if not self.drops_path:
            return frozenset()
        return frozenset(block for route in self.routes for block in range(int(route.start), int(route.end) + 1))


def _read_blocks(value: object) -> object:
    if isinstance(value, list | tuple) and all(isinstance(route, Route) for route in value):
        return tuple(value)
    if not isinstance(value, str):
        raise ValueError("must be START:END, such as 2:8; several are separated by commas")
    try:
        return tuple(Route.parse(f"{part}@0") for part in value.split(",") if part.strip())
    except ValueError:
        raise ValueError(f"{value!r}: write START:END, such as 2:8, 2:-4 or 1/6:2/3, without a rate") from None


Blocks = Annotated[
    tuple[Route, ...],  # with rate 0, since a rule has its own rates
    BeforeValidator(_read_blocks, json_schema_input_type=str),
    PlainSerializer(lambda routes: ",".join(str(route).partition("@")[0] for route in routes), return_type=str),
]


def iteration_or_share(value: float, first: int = 1) -> float:
    if isinstance(value, int) and value < first:
        raise ValueError(f"{value}: iterations count from {first}; a share of the training is a number between 0 and 1")
    if isinstance(value, float) and not 0 < value < 1:
        raise ValueError(f"{value:g}: a share of the training must lie between 0 and 1; an iteration is a whole number")
    return value


Moment = Annotated[Int | Float, AfterValidator(iteration_or_share), BeforeValidator(no_boolean)]


def iteration_at(moment: float, iterations: int) -> int:
    """Return the iteration of a moment: the moment itself, or a share of `iterations`, rounded, at least 1."""
    return moment if isinstance(moment, int) else max(1, round(moment * iterations))


class GuidanceOptions(Options):
    """A guidance rule with its settings. A subclass states its rule's name: `name: Literal["mine"] = "mine"`."""

    @property
    def branches(self) -> tuple[Branch, Branch | None]:
        """The strong branch, and the weak one that guides it; None: the strong branch alone is the prediction."""
        raise NotImplementedError

    @property
    def guided_times(self) -> tuple[float, float] | None:
        """The objective's times low < t <= high at which guidance applies; None: all times."""
        return None

    @property
    def routed_blocks(self) -> tuple[Route, ...] | None:
        """Blocks that tokens bypass or a branch leaves out; empty: those of the cell's routes; None: no blocks."""
        return None

    @property
    def rates(self) -> tuple[float, ...]:
        """Shares of the tokens that bypass `routed_blocks`, one per branch, in order; empty: all tokens bypass them."""
        return ()

    @property
    def weak_row(self) -> str | None:
        """The row whose network is the weak branch, if it has other weights; None: the evaluated row's."""
        return None

    @property
    def weak_snapshot(self) -> int | float | None:
        """The iteration of the weak branch's weights, or the share of their training; None: the end."""
        return None

    def with_blocks(self, blocks: Sequence[Route]) -> Self:
        """Return the same rule with `routed_blocks` (its field `blocks`) in block numbers."""
        return self.model_copy(update={"blocks": tuple(blocks)})

    def with_weights(self, row: str, iteration: int) -> Self:
        """Return the same rule with the weak branch's weights (its fields `row` and `snapshot`) written out."""
        named_row = {} if self.weak_row is None else {"row": row}
        return self.model_copy(update={"snapshot": iteration, **named_row})


@dataclass(frozen=True, kw_only=True)
class GuidanceFamily(Description):
    """Torch-free description of a guidance rule.

    Args:
        name: its name in a suite.
        options: its typed settings, with its branches; the docstring's first line is shown by `tread-bench list`.
    """

    options: type[GuidanceOptions]


guidance_rules = Kind("guidance", "tread_bench.guidance", GuidanceFamily, GuidanceOptions)
