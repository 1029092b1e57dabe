"""What a method, a schedule or an auxiliary loss asks of the rest of a cell. No torch."""

from __future__ import annotations

from collections.abc import Iterator

from tread_bench.core.config.auxiliary import MaeLoss, RepaLoss
from tread_bench.core.config.methods import MaskMethod
from tread_bench.core.config.suite import Cell
from tread_bench.core.families import BackboneSpec, Family, no_extra_rule
from tread_bench.core.problems import Problem
from tread_bench.core.routes import Route, format_routes
from tread_bench.suite.merge import Draft

CHOOSES_ITSELF = {"mod": "its routers choose the tokens", "layer_skip": "samples skip as a whole"}
BYPASSING = ("tread", "drop", "sprint")  # methods whose tokens leave on a route and are predicted all the same


def method_problems(cell: Cell, family: Family, spec: BackboneSpec, draft: Draft) -> Iterator[Problem]:
    """All that is wrong with a cell whose routes are resolved."""
    for message in (*_one_route(cell, family, spec), *_skips(cell, family, spec)):
        yield Problem(message, draft.latest(("routes",), ("method",)))
    if cell.method.name in CHOOSES_ITSELF and cell.selector != "random":
        message = f"selector {cell.selector!r}: {CHOOSES_ITSELF[cell.method.name]}; leave selector out"
        yield Problem(message, draft.latest(("selector",), ("method",)))
    yield from _decoder(cell)
    yield from _schedule(cell, family, spec, draft)
    if isinstance(cell.method, MaskMethod) and cell.method.mae_weight:
        for message in _single_values(spec):
            yield Problem(f"method mask: {message}, or method.mae_weight: 0", ("method",))
    for index, loss in enumerate(cell.auxiliary):
        found = _mae(loss, cell, spec) if isinstance(loss, MaeLoss) else _repa(loss, cell, family.num_blocks(spec) - 1)
        for key, message in found:
            yield Problem(message, ("auxiliary", index, *((key,) if key else ())))
        if loss.name in (other.name for other in cell.auxiliary[:index]):
            yield Problem(f"auxiliary {loss.name} is named twice: keep one", ("auxiliary", index))


def _one_route(cell: Cell, family: Family, spec: BackboneSpec) -> Iterator[str]:
    """Methods that stand on one route, and where it may lie."""
    name, last, written = cell.method.name, family.num_blocks(spec) - 1, format_routes(cell.routes)
    if name == "mask" and [(route.start, route.end) for route in cell.routes] != [(0, last)]:
        yield f"method mask drops tokens for all blocks, here {written}: write one route 0:-1@RATE"
    if name == "sprint" and len(cell.routes) != 1:
        yield f"method sprint takes one route, here {written}: keep one"
    elif name == "sprint" and not (cell.routes[0].start >= 1 and cell.routes[0].end < last):
        yield (
            f"method sprint needs dense blocks before and after its route, here {written} of {last + 1} blocks: "
            f"start at 1 or later and end at {last - 1} or before"
        )


def _skips(cell: Cell, family: Family, spec: BackboneSpec) -> Iterator[str]:
    """Long skips around what a method takes away."""
    skips, last = family.long_skips(spec), family.num_blocks(spec) - 1
    for route in cell.routes:
        start, end = int(route.start), int(route.end)
        over = [(a, b) for a, b in skips if a <= end < b]
        halved = [(a, b) for a, b in skips if (start <= a <= end) != (start <= b <= end)]
        if cell.method.name == "drop" and over:
            a, b = over[-1]
            yield (
                f"method drop with route {route}: a long skip of {family.name} joins block {a} to block {b} behind the "
                f"route, so that dropped tokens would come back; end the route at the last block: "
                f"{Route(start, last, route.rate)}"
            )
        if cell.method.name in ("sprint", "layer_skip") and halved:
            a, b = halved[0]
            yield (
                f"method {cell.method.name} with route {route}: a long skip of {family.name} joins block {a} to block "
                f"{b}, of which only one is inside; take a route that is symmetrical about the middle, such as "
                f"{Route(min(start, last - end), max(end, last - start), route.rate)}"
            )


def _decoder(cell: Cell) -> Iterator[Problem]:
    method = cell.method
    if isinstance(method, MaskMethod) and method.decoder_width % method.decoder_heads:
        message = (
            f"method.decoder_heads {method.decoder_heads}: must divide method.decoder_width {method.decoder_width}"
        )
        yield Problem(message, ("method", "decoder_heads"))


def _schedule(cell: Cell, family: Family, spec: BackboneSpec, draft: Draft) -> Iterator[Problem]:
    schedule, name = cell.schedule, cell.method.name
    if schedule.warmup > schedule.until:
        message = f"schedule.warmup {schedule.warmup:g}: must end before the dense part, at {schedule.until:g} (until)"
        yield Problem(message, draft.latest(("schedule", "warmup"), ("schedule", "until")))
    elif cell.evaluate is None:
        for key, message in _unreached(cell):
            yield Problem(message, draft.latest(("schedule", key), ("training", "iterations")))
    if schedule.dense_learning_rate is not None and schedule.until == 1:
        message = "schedule.dense_learning_rate has no effect without a dense part: set schedule.until below 1"
        yield Problem(message, ("schedule", "dense_learning_rate"))
    if name == "dense" and schedule.warmup:
        message = "schedule.warmup: method dense has no routes to warm up; leave it out"
        yield Problem(message, draft.latest(("schedule", "warmup"), ("method",)))
    if name == "dense" and schedule.until < 1 and schedule.dense_learning_rate is None:
        message = "schedule.until: method dense is dense throughout; give schedule.dense_learning_rate or leave it out"
        yield Problem(message, draft.latest(("schedule", "until"), ("method",)))
    if name == "mod" and schedule.until < 1:
        message = "schedule.until: method mod is judged with its routers on, so it cannot end dense; leave it out"
        yield Problem(message, draft.latest(("schedule", "until"), ("method",)))
    if schedule.warmup and family.check_routes is not no_extra_rule:
        for message in _warmup_routes(cell, family, spec):
            yield Problem(f"schedule.warmup: {message}", draft.latest(("schedule", "warmup"), ("routes",)))


def _unreached(cell: Cell) -> Iterator[tuple[str, str]]:
    """Key and message of each part of the schedule that has not a single step."""
    schedule, iterations = cell.schedule, cell.training.iterations
    if schedule.warmup and not round(schedule.warmup * iterations):
        yield "warmup", f"schedule.warmup {schedule.warmup:g} of {iterations} iterations is no step: set it to 0"
    part = {0: "before", iterations: "after"}.get(round(schedule.until * iterations))
    if schedule.until < 1 and part:
        message = f"schedule.until {schedule.until:g} of {iterations} iterations leaves no step {part} it"
        yield "until", f"{message}: move it, or leave it out"


def _warmup_routes(cell: Cell, family: Family, spec: BackboneSpec) -> Iterator[str]:
    """The first route that a family refuses at a number of tokens which the warm-up passes."""
    tokens = spec.num_tokens
    for route in cell.routes:
        for bypassed in range(1, tokens - route.kept(tokens)):
            try:
                rate = (bypassed + 0.5) / tokens
                family.resolve(spec, [Route(route.start, route.end, rate)], cell.selector)
            except ValueError as error:
                yield f"on the way to {route}, {error}; or leave the warm-up out"
                return


def _single_values(spec: BackboneSpec) -> Iterator[str]:
    """What the loss on dropped pixels, which divides by each patch's standard deviation, cannot be computed of."""
    if spec.patch**2 * spec.channels == 1:
        yield "its loss on pixels normalises each patch, and here a patch is a single value: set backbone.patch: 2"


def _mae(loss: MaeLoss, cell: Cell, spec: BackboneSpec) -> Iterator[tuple[str, str]]:
    """Key and message of what is wrong."""
    method, routes = cell.method.name, len(cell.routes)
    if method not in BYPASSING:
        has_own = "has this loss of its own (method.mae_weight)" if method == "mask" else "has none"
        way_out = f"remove it, or choose one of {', '.join(BYPASSING)}"
        yield "", f"auxiliary mae needs tokens that bypass a route, and method {method} {has_own}: {way_out}"
    elif loss.route_weights is not None and len(loss.route_weights) != routes:
        yield "route_weights", f"route_weights {list(loss.route_weights)}: give one for each of the {routes} routes"
    for message in _single_values(spec):
        yield "", f"auxiliary mae: {message}, or remove it"


def _repa(loss: RepaLoss, cell: Cell, last: int) -> Iterator[tuple[str, str]]:
    """Key and message of what is wrong."""
    if loss.block is not None and loss.block > last:
        yield "block", f"auxiliary repa.block {loss.block}: must lie in 0..{last}"
    elif cell.method.name == "layer_skip":
        yield "", "auxiliary repa with method layer_skip: samples that skip a block have no tokens to align; remove it"
    if (loss.model is None) != (loss.weights is None):
        given, missing = ("weights", "model") if loss.model is None else ("model", "weights")
        rule = f"auxiliary repa.{given} needs repa.{missing} too: a timm model and the local file of its weights"
        yield given, rule
    elif loss.model is None and cell.data.name != "digits":
        way_out = "set repa.model (a timm model) and repa.weights (its local file)"
        yield "", f"auxiliary repa: no feature network ships for data {cell.data.name}; {way_out}"
    elif cell.data.channels not in (1, 3):
        channels = f"data {cell.data.name} has {cell.data.channels} channels"
        yield "model", f"auxiliary repa.model {loss.model}: sees images of 1 or 3 channels, and {channels}; remove repa"
