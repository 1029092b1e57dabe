"""`profile --tokens`: what a token costs in every family, over the number of tokens of an image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from tread_bench.core.describe.dialects import read_routes
from tread_bench.core.describe.families import BackboneSpec, Family, families, find_family
from tread_bench.core.errors import UserError

CHOICES = ("mixer", "attention")  # keys of a backbone of which every value is a row of its own


@dataclass(frozen=True, slots=True)
class LengthsRequest:
    """Which families, at how many tokens, along which routes; as typed.

    Args:
        family: a family's name, or "all".
        tokens: "64:16384": from and to, in steps of 4, since the grid of tokens is square; or one number.
        is_timed: also time training steps here, on `device`, `batch` images each.
    """

    family: str
    tokens: str
    routes: tuple[str, ...]
    selector: str
    is_timed: bool
    batch: int
    device: str


def profile_lengths(request: LengthsRequest) -> list[dict[str, Any]]:
    """Return a row of each variant and number of tokens: MACs of a dense forward pass per token, by kind, and so on.

    Each family is measured at its first published size of patch 2. Raises UserError.
    """
    sides = _sides(request.tokens)
    return [_row(request, *variant, side) for variant in _variants(request.family) for side in sides]


def _sides(tokens: str) -> list[int]:
    """Sides of the grids of tokens, each twice the one before."""
    first, _, last = tokens.partition(":")
    try:
        side, least, most = round(int(first) ** 0.5), int(first), int(last or first)
    except ValueError:
        side, least, most = 0, 1, 0
    if side**2 != least or most < least or side < 1:
        rule = "tokens lie on a square grid: write FIRST:LAST, such as 64:16384, where FIRST is a square"
        raise UserError(f"--tokens {tokens}: {rule}")
    sides = []
    while side**2 <= most:
        sides.append(side)
        side *= 2
    return sides


def _variants(name: str) -> Iterator[tuple[str, Family, dict[str, Any]]]:
    """Every mixer and kind of attention of a family at its first published size of patch 2, with a name for each."""
    try:
        chosen = list(families().values()) if name == "all" else [find_family(name)[0]]
    except ValueError as error:
        raise UserError(f"--family: {error}, or all") from None
    for family in chosen:
        published = next((one for one, sizes in family.published.items() if sizes.get("patch") == 2), None)
        sizes = dict(family.published[published]) if published else {}
        key = next((key for key in CHOICES if key in family.spec.model_fields), None)
        values = get_args(family.spec.model_fields[key].annotation) if key else ()
        for value in values or (None,):
            label = f"{published or family.name} {value}" if len(values) > 1 else published or family.name
            yield label, family, {**sizes, **({key: value} if key and value else {})}


def _row(request: LengthsRequest, label: str, family: Family, sizes: dict[str, Any], side: int) -> dict[str, Any]:
    """One variant at one number of tokens."""
    from tread_bench.core.numbers.costs import cost_figures, cost_of

    patch = family.spec(**sizes).patch
    spec = family.spec(**{**sizes, "image_size": side * patch})
    try:
        wanted = [route for text in request.routes for route in read_routes(text)]
        routes = family.resolve(spec, wanted, request.selector)
    except ValueError as error:
        raise UserError(f"{label}: {error}") from None
    dense, figures = cost_of(family, spec).forward, cost_figures(family, spec, routes, request.selector)
    tokens = spec.num_tokens
    row = {
        "backbone": label,
        "tokens": tokens,
        "params": figures.params,
        "linear_macs_per_token": dense.linear / tokens,
        "attention_macs_per_token": dense.attention / tokens,
        "scan_macs_per_token": dense.scan / tokens,
        "forward_macs_per_token": dense.total / tokens,
        "macs_ratio": figures.forward_macs / figures.dense_forward_macs,
    }
    return row | (_timed(request, family, spec, routes) if request.is_timed else {})


def _timed(request: LengthsRequest, family: Family, spec: BackboneSpec, routes: Any) -> dict[str, Any]:
    """A training step on this machine, per token of an image, and the speed-up of the routes."""
    from tread_bench.cell.numerics import usable_device
    from tread_bench.cell.speed import time_backbone

    found = time_backbone(family, spec, routes, request.selector, request.batch, usable_device(request.device))
    names = ("speedup", "speedup_low", "speedup_high", "device_name")
    per_token = found["step_time_ms"] / (request.batch * spec.num_tokens)
    return {"step_ms_per_token": per_token, **{name: found[name] for name in names}}
