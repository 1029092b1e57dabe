"""Rules that a method, a schedule or an auxiliary loss imposes on the rest of a cell. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tread_bench.core.config.routed import Setting
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.methods import Evaluated, LossOptions, MethodOptions, methods
from tread_bench.core.describe.routes import Route
from tread_bench.core.describe.selectors import DEFAULT_SELECTOR
from tread_bench.core.problems import Loc, Problem, at, dotted
from tread_bench.suite.merge import Draft


def method_problems(cell: Cell, family: Family, spec: BackboneSpec, draft: Draft) -> Iterator[Problem]:
    """Yield all that is wrong with a cell whose routes are resolved."""
    # Rules of the method itself.
    for problem in cell.method.family.check(Setting(cell, family, spec)):
        is_of_method = problem.loc[:1] == ("method",)
        yield problem if is_of_method else replace(problem, loc=draft.latest(problem.loc, ("method",)))
    if cell.method.family.chooses_tokens and cell.selector != DEFAULT_SELECTOR:
        rule = f"method {cell.method.name} chooses itself what to skip"
        message = f"selector {cell.selector!r}: {rule}; leave selector out"
        yield Problem(message, draft.latest(("selector",), ("method",)))

    # Rules of its schedule.
    schedule, method = cell.schedule, cell.method
    if schedule.warmup > schedule.until:
        message = f"schedule.warmup {schedule.warmup:g}: must end before the dense part, at {schedule.until:g} (until)"
        yield Problem(message, draft.latest(("schedule", "warmup"), ("schedule", "until")))
    elif cell.evaluate is None:
        yield from unreached(cell, draft)
    if schedule.dense_learning_rate is not None and schedule.until == 1:
        message = "schedule.dense_learning_rate has no effect without a dense part: set schedule.until below 1"
        yield Problem(message, ("schedule", "dense_learning_rate"))
    if not method.family.takes_routes and schedule.warmup:
        message = f"schedule.warmup: method {method.name} has no routes to warm up; leave it out"
        yield Problem(message, draft.latest(("schedule", "warmup"), ("method",)))
    if not method.family.takes_routes and schedule.until < 1 and schedule.dense_learning_rate is None:
        rule = f"method {method.name} is dense throughout"
        message = f"schedule.until: {rule}; give schedule.dense_learning_rate or leave it out"
        yield Problem(message, draft.latest(("schedule", "until"), ("method",)))
    if method.family.evaluated is Evaluated.ROUTED and schedule.until < 1:
        message = f"schedule.until: method {method.name} is evaluated routed, so it cannot end dense; leave it out"
        yield Problem(message, draft.latest(("schedule", "until"), ("method",)))
    if schedule.warmup and cell.routes:  # it begins with a single token that bypasses
        first = [Route(route.start, route.end, 1.5 / spec.num_tokens) for route in cell.routes]
        with at("schedule", "warmup"):
            try:
                family.resolve(spec, first, cell.selector)
            except ValueError as error:
                raise ValueError(f"{error}, as a warm-up begins: leave the warm-up out") from None

    # Rules of its auxiliary losses.
    for index, loss in enumerate(cell.auxiliary):
        own = loss.family.check(Setting(cell, family, spec), loss)
        for problem in (*loss_problems(loss, cell.method), *own):
            yield replace(problem, loc=("auxiliary", index, *problem.loc))
        if loss.name in (other.name for other in cell.auxiliary[:index]):
            yield Problem(f"auxiliary {loss.name} is named twice: keep one", ("auxiliary", index))


def unreached(cell: Cell, draft: Draft) -> Iterator[Problem]:
    """Problems of the parts of a cell's schedule, and of its decay, that have no step in its training."""
    schedule, training = cell.schedule, cell.training
    parts: list[tuple[Loc, float]] = [(("schedule", "warmup"), schedule.warmup)]
    parts += [(("schedule", "until"), share) for share in (schedule.until, 1 - schedule.until)]
    if cell.trains:
        parts.append((("training", "decay", "share"), training.decay.span))
    for loc, share in parts:
        if 0 < share < 1 and not round(share * training.iterations):
            rule = f"a part of {share:g} of {training.iterations} iterations is less than a step"
            message = f"{dotted(loc)}: {rule}; change it, or leave it out"
            yield Problem(message, draft.latest(loc, ("training", "iterations")))


def loss_problems(loss: LossOptions, method: MethodOptions) -> Iterator[Problem]:
    """Yield what is wrong with a loss on tokens that the method does not have."""
    own = method.family.own_losses.get(loss.name)
    if own is not None or (loss.family.needs_absent_tokens and not method.family.predicts_absent_tokens):
        able = [one for one in methods().values() if one.predicts_absent_tokens and loss.name not in one.own_losses]
        has_own = f"has this loss of its own (method.{own})" if own else "has none"
        way_out = f"remove it, or choose one of {', '.join(one.name for one in able)}"
        rule = f"needs tokens that bypass a route, and method {method.name} {has_own}"
        yield Problem(f"auxiliary {loss.name} {rule}: {way_out}")
    if loss.family.reads_tokens and method.family.varies:
        rule = "inside a route its samples do not pass the same blocks together, so there are no tokens to align"
        yield Problem(f"auxiliary {loss.name} with method {method.name}: {rule}; remove it")
