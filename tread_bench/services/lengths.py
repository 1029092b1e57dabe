"""`profile --tokens`: what a token costs in every family, over the number of tokens of an image."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, get_args

import psutil
from pydantic import ValidationError
from rich.console import Console

from tread_bench.core.config.backbones import BackboneChoice
from tread_bench.core.config.choices import PLAINLY_DENSE, PLAINLY_ROUTED
from tread_bench.core.config.compute import Compute, Timing
from tread_bench.core.config.suite import Cell
from tread_bench.core.config.training import Training
from tread_bench.core.describe.dialects import read_routes
from tread_bench.core.describe.families import BackboneSpec, Family, families, find_family
from tread_bench.core.describe.kernels import resolve_kernels
from tread_bench.core.describe.routes import ResolvedRoute, format_routes
from tread_bench.core.errors import UserError, failure_text, is_out_of_memory
from tread_bench.core.numbers.costs import cost_figures, cost_of
from tread_bench.core.stored.conditions import Conditions
from tread_bench.core.stored.destinations import claim_folders
from tread_bench.core.stored.records import CostFigures, Record, TimingFigures
from tread_bench.data.random_latents.family import RandomLatentsData
from tread_bench.runner.display import Display
from tread_bench.runner.folder import disk_errors_reported
from tread_bench.services.display import make_display
from tread_bench.suite.plan import state_bytes

if TYPE_CHECKING:
    from tread_bench.reports.rows.row import Row

CHOICES = ("mixer", "attention")  # keys of a backbone of which every value is a row of its own
KINDS = ("linear", "attention", "scan", "forward")  # of multiply-adds; the last is their sum
TIMED = (
    "batch",
    "step_ms_per_token",
    "dense_step_ms_per_token",
    "speedup",
    "speedup_low",
    "speedup_high",
    "device_name",
)
BATCH_TOKENS = 4096  # of a timed batch
BATCH_IMAGES = 32  # of a timed batch at most, so that few tokens mean short steps
TIMING = Timing(pairs=8, warmup=1)
_FOR_A_MOMENT = 1.25  # times the activations: with what operators and their gradients need for a moment


@dataclass(frozen=True, slots=True)
class LengthsRequest:
    """Which families, at how many tokens, along which routes; as typed.

    Args:
        family: a family's name, or "all".
        tokens: "64:16384": from and to, in steps of 4, since the grid of tokens is square; or one number.
        is_timed: also time training steps here, on `device`.
        batch: images of a timed step at the fewest tokens; None: as many as have `BATCH_TOKENS` tokens, and at most
            `BATCH_IMAGES`. Images fall as tokens rise, so that a batch has as many tokens.
        tables: folder for pictures and their numbers.
    """

    family: str
    tokens: str
    routes: tuple[str, ...]
    selector: str
    is_timed: bool
    batch: int | None
    device: str
    tables: Path | None = None

    def images(self, tokens: int, fewest: int) -> int:
        """Return the images of a timed step, of so many tokens each: at least one."""
        of_batch = self.batch * fewest if self.batch else BATCH_TOKENS
        return max(1, min(self.batch or BATCH_IMAGES, of_batch // tokens))


@dataclass(frozen=True, slots=True)
class Network:
    """A family at its smallest published size, with one mixer or kind of attention, at one number of tokens."""

    family: Family
    choice: BackboneChoice
    spec: BackboneSpec


@dataclass(frozen=True, slots=True)
class Length:
    """What was found at one number of tokens.

    Args:
        label: of the network.
        network: None: it cannot have so many tokens.
        records: as of a run that trains nothing, dense and, where there are routes, routed.
        problem: why it has no records, or no times.
    """

    label: str
    tokens: int
    network: Network | None
    records: tuple[Record, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Each network at each number of tokens as JSON has it, and from how many tokens on a linear cost pays."""

    lines: list[dict[str, Any]]
    sentences: list[str]


def profile_lengths(request: LengthsRequest) -> Lengths:
    """Count, and time where requested, each family at its smallest published size; draw it where requested.

    Raises:
        UserError: a family, a number of tokens, a route or a device that cannot be had, or a folder that holds
            something else.
    """
    # Counts, for any machine, and what can be refused.
    sides = _sides(request.tokens)
    found = [_counted(request, length, sides[0] ** 2) for length in _lengths(request.family, sides)]
    if request.is_timed:
        from tread_bench.cell.numerics import usable_device

        request = replace(request, device=usable_device(request.device))
    claim_folders("tread-bench profile", {"--tables": request.tables})

    # Step times, of this machine.
    if request.is_timed:
        found = _timed(found, request.device)

    # What they say.
    lines = [_line(length, request.is_timed) for length in found]
    return Lengths(lines, _said([record for length in found for record in length.records], request.tables))


def _sides(tokens: str) -> list[int]:
    """Sides of the grids of tokens, each twice the one before."""
    first, _, last = tokens.partition(":")
    try:
        least, most = int(first), int(last or first)
        side = math.isqrt(least)
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


# Networks


def _lengths(name: str, sides: Sequence[int]) -> Iterator[Length]:
    """Every mixer and kind of attention of a family at its smallest published size, at every number of tokens."""
    try:
        chosen = list(families().values()) if name == "all" else [find_family(name)[0]]
    except ValueError as error:
        raise UserError(f"--family: {error}, or all") from None
    for family in chosen:
        size, sizes = _smallest(family, sides[0])
        for own in _choices(family):
            label = " ".join([size, *own.values()])
            for side in sides:
                yield _length(label, family, BackboneChoice(name=size, **own), {**sizes, **own}, side)


def _choices(family: Family) -> list[dict[str, str]]:
    """Its mixers or kinds of attention, each as a key of a backbone; one without a key where it has no choice."""
    key = next((key for key in CHOICES if key in family.spec.model_fields), "")
    values = get_args(family.spec.model_fields[key].annotation) if key else ()
    return [{key: value} for value in values] if len(values) > 1 else [{}]


def _smallest(family: Family, side: int) -> tuple[str, Mapping[str, Any]]:
    """Name and sizes of the published network with the fewest parameters at so many tokens: one for labels, where there
    is one. A family that publishes none has its own name.
    """
    ranks = {}
    for name, sizes in family.published.items():
        try:
            spec = _spec(family, sizes, side)
        except ValidationError:
            continue
        ranks[name] = spec.context_shape is not None, cost_of(family, spec).params
    smallest = min(ranks, key=ranks.__getitem__, default=next(iter(family.published), family.name))
    return smallest, family.published.get(smallest, {})


def _spec(family: Family, sizes: Mapping[str, Any], side: int) -> BackboneSpec:
    """The sizes, with an image of so many patches a side. Raises pydantic's ValidationError."""
    return family.spec(**{**sizes, "image_size": side * family.spec(**sizes).patch})


def _length(label: str, family: Family, choice: BackboneChoice, sizes: Mapping[str, Any], side: int) -> Length:
    try:
        return Length(label, side**2, Network(family, choice, _spec(family, sizes, side)))
    except ValidationError as error:
        rules = "; ".join(one["msg"].removeprefix("Value error, ") for one in error.errors())
        return Length(label, side**2, None, problem=f"it cannot have so many tokens: {rules}")


# Counts


def _counted(request: LengthsRequest, length: Length, fewest: int) -> Length:
    """The same with records that have no times. Raises UserError for a route that the network cannot have."""
    if length.network is None:
        return length
    family, spec = length.network.family, length.network.spec
    try:
        wanted = [route for text in request.routes for route in read_routes(text)]
        routes = family.resolve(spec, wanted, request.selector)
    except ValueError as error:
        raise UserError(f"{length.label}: {error}") from None
    batch = request.images(length.tokens, fewest)
    ways = [(), routes] if routes else [()]
    records = (_record(length.label, length.network, way, request.selector, batch) for way in ways)
    return replace(length, records=tuple(records))


def _record(label: str, network: Network, routes: tuple[ResolvedRoute, ...], selector: str, batch: int) -> Record:
    """A network along routes, as a row of a run that is only timed."""
    family, spec = network.family, network.spec
    shape = {"channels": spec.channels, "image_size": spec.image_size, "num_classes": spec.num_classes}
    cell = Cell(
        backbone=network.choice,
        data=RandomLatentsData(**shape),
        method=PLAINLY_ROUTED if routes else PLAINLY_DENSE,
        routes=routes,
        selector=selector,
        training=Training(iterations=0, batch=batch),
    )
    row = f"{label} {format_routes(routes)}".strip()
    cost = cost_figures(family, spec, routes, selector)
    return Record(
        cell=f"{row}, {spec.num_tokens:,} tokens",
        suite="profile",
        row=row,
        seed=0,
        status="done",
        config=cell.model_dump(mode="json"),
        backbone=network.choice.label,
        family=family.name,
        method=cell.method.name,
        routes=format_routes(routes),
        selector=selector if routes else "",
        num_blocks=family.num_blocks(spec),
        reference=f"{label}, {spec.num_tokens:,} tokens",
        cost=cost,
    )


# Times


def _timed(found: Sequence[Length], device: str) -> list[Length]:
    """The same with times of training steps, in turn with dense ones, where these fit into memory."""
    display = make_display(Console(stderr=True))
    display.begin("timing", {one.cell: one.cell for length in found for one in length.records}, at_once=1)
    try:
        return [_timed_length(length, device, display) for length in found]
    finally:
        display.end()


def _timed_length(length: Length, device: str, display: Display) -> Length:
    if length.network is None:
        return length
    problem = _too_large(length.network, length.records[0], device)
    records = []
    for record in length.records:
        display.started(record.cell)
        if not problem:
            record, problem = _with_times(length.network, record, device)
        display.ended(record.cell, problem)
        records.append(record)
    return replace(length, records=tuple(records), problem=problem)


def _with_times(network: Network, record: Record, device: str) -> tuple[Record, str]:
    """A record with its times; or, where memory ran out, as it was, and what ran out."""
    from tread_bench.cell.speed import time_backbone

    family, spec, batch = network.family, network.spec, record.config["training"]["batch"]
    routes = family.resolve(spec, record.routes, record.selector)
    try:
        times = time_backbone(family, spec, routes, record.selector, batch, device, TIMING)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return record, failure_text(error)
    timing = TimingFigures(**{name: times[name] for name in TimingFigures.model_fields if name in times})
    conditions = Conditions(device_name=times["device_name"])
    return record.model_copy(update={"timing": timing, "conditions": conditions}), ""


class _Captioned(RandomLatentsData):
    """Noise with the text features that a network takes, if it takes any."""

    context: tuple[int, int] | None

    @property
    def text_shape(self) -> tuple[int, int] | None:
        return self.context


def _too_large(network: Network, dense: Record, device: str) -> str:
    """Why steps in turn with dense ones do not fit into free memory; "" where they do, or it cannot be predicted."""
    import torch

    from tread_bench.cell.predicted import predict_activations

    # What a dense step keeps for its backward pass, without computing it.
    cell, compute = Cell.model_validate(dense.config), Compute()
    data = _Captioned(**cell.data.model_dump(), context=network.spec.context_shape)
    kernels = resolve_kernels(compute.kernels.model_dump(), device)
    try:
        taught = cell.model_copy(update={"data": data})
        kept = predict_activations(taught, compute, kernels, torch.device(device, 0), processes=1).total
    except RuntimeError:
        return ""

    # With the state of two networks.
    assert dense.cost is not None
    needed = 2 * state_bytes(cell, dense.cost.params) + _FOR_A_MOMENT * kept
    free = _free_bytes(device)
    if needed <= free:
        return ""
    step = f"steps of {cell.training.batch} x {dense.cost.image_tokens:,} tokens"
    return f"not timed: {step} need about {needed / 2**30:,.1f} GiB, and {free / 2**30:,.1f} GiB are free"


def _free_bytes(device: str) -> int:
    """Of the device's memory, with what earlier steps have left behind."""
    import torch

    gc.collect()
    if device == "cpu":
        return psutil.virtual_memory().available
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


# What is said


def _line(length: Length, is_timed: bool) -> dict[str, Any]:
    """MACs of a forward pass per token, by kind, and so on; null where nothing was found."""
    dense, *routed = [record.cost for record in length.records] or [None]
    last = routed[0] if routed else dense
    return {
        "backbone": length.label,
        "tokens": length.tokens,
        "params": last and last.params,
        **_per_token(dense),
        "macs_ratio": last and last.forward_macs / last.dense_forward_macs,
        **(_per_token(last, "routed_") if routed else {}),
        **(_times(length) if is_timed else {}),
        "problem": length.problem or None,
    }


def _per_token(cost: CostFigures | None, way: str = "") -> dict[str, float | None]:
    names = [f"{way}{kind}_macs_per_token" for kind in KINDS]
    if cost is None:
        return dict.fromkeys(names)
    linear = cost.forward_macs - cost.attention_macs - cost.scan_macs
    macs = (linear, cost.attention_macs, cost.scan_macs, cost.forward_macs)
    return {name: count / cost.image_tokens for name, count in zip(names, macs, strict=True)}


def _times(length: Length) -> dict[str, Any]:
    """Of a training step: the routed one where there is one, the dense one, and the ratio of the two."""
    last = length.records[-1] if length.records else None
    if last is None or last.timing is None:
        return dict.fromkeys(TIMED)
    timing = last.timing
    tokens = timing.batch * length.tokens
    dense_ms = median(timing.reference_step_times_ms)
    found = (timing.batch, timing.step_time_ms / tokens, dense_ms / tokens)
    ratio = (timing.speedup, timing.speedup_low, timing.speedup_high)
    return dict(zip(TIMED, (*found, *ratio, last.conditions.device_name), strict=True))


def _said(records: Sequence[Record], tables: Path | None) -> list[str]:
    """From how many tokens on a linear cost pays, a sentence for each quantity; drawn where requested."""
    from tread_bench.reports.claims import macs_per_token, time_per_token
    from tread_bench.reports.rows.architectures import side_by_side
    from tread_bench.reports.rows.comparison import comparison

    rows = [row for members in side_by_side(comparison(records)) for row in members]
    if tables is not None:
        _draw(rows, tables)
    return [said for said in (*macs_per_token.summaries(rows), time_per_token.summary(rows)) if said]


def _draw(rows: Sequence[Row], tables: Path) -> None:
    from tread_bench.reports.figures.per_token import macs_per_token
    from tread_bench.reports.figures.speed import time_per_token
    from tread_bench.reports.figures.style import theme
    from tread_bench.reports.page.document import write_export

    with theme(exports=True):
        drawn = [picture for draw in (macs_per_token, time_per_token) if (picture := draw(rows))]
    with disk_errors_reported(tables):
        write_export(tables, [], drawn)
