"""Rules for running a trained network routed or without some blocks: guidance and the training-inference gap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.branches import Branch
from tread_bench.core.describe.families import BackboneSpec, Family, no_extra_rule
from tread_bench.core.describe.routes import ResolvedRoute, Route, resolve_routes
from tread_bench.core.problems import Loc, Problem, dotted

GUIDANCE: Loc = ("sampling", "guidance")


class Setting(NamedTuple):
    """A cell with its routes in block numbers, and its backbone."""

    cell: Cell
    family: Family
    spec: BackboneSpec

    def at_rate(self, blocks: Sequence[Route], rate: float) -> tuple[ResolvedRoute, ...]:
        """Resolve `blocks`, or those of the cell's routes, at that rate. Raises ValueError."""
        routes = [Route(route.start, route.end, rate) for route in blocks or self.cell.routes]
        return self.family.resolve(self.spec, routes, self.cell.selector)


def setting_of(cell: Cell) -> Setting:
    """Return the setting of a resolved cell."""
    return Setting(cell, cell.backbone.family(), cell.backbone.spec(cell.data))


def with_blocks(setting: Setting) -> Cell | list[Problem]:
    """Return the cell with every `blocks` of guidance and metrics in block numbers, or what is wrong with them."""
    problems = [*_guidance_problems(setting), *_gap_problems(setting)]
    if problems:
        return problems
    cell, rule, metrics = setting.cell, setting.cell.sampling.guidance, setting.cell.metrics
    changes: dict[str, Any] = {}
    if rule.routed_blocks is not None:
        rule = rule.with_blocks(_numbered(setting, rule.routed_blocks))
        changes["sampling"] = cell.sampling.model_copy(update={"guidance": rule})
    if metrics.routed_rates:
        changes["metrics"] = metrics.model_copy(update={"routed_blocks": _numbered(setting, metrics.routed_blocks)})
    return cell.model_copy(update=changes) if changes else cell


def _numbered(setting: Setting, blocks: Sequence[Route]) -> tuple[ResolvedRoute, ...]:
    if setting.cell.method.family.has_shallow_path:
        return ()
    found = resolve_routes(blocks or setting.cell.routes, setting.family.num_blocks(setting.spec))
    return tuple(route.at_share(0) for route in found)


def _guidance_problems(setting: Setting) -> Iterator[Problem]:
    rule = setting.cell.sampling.guidance
    branches = [branch for branch in rule.branches if branch is not None]
    if not all(branch.label for branch in branches):
        for message in _no_empty_label(setting):
            yield Problem(f"sampling.guidance {rule.name} leaves out the label, {message}", (*GUIDANCE, "name"))
    yield from _interval_problems(setting.cell)
    if rule.routed_blocks is not None:
        at = (*GUIDANCE, "blocks")
        found = list(_block_problems(setting, f"sampling.guidance {rule.name}", rule.routed_blocks, rule.rates, at))
        yield from found or _decay_problems(setting)


def _no_empty_label(setting: Setting) -> Iterator[str]:
    if not setting.spec.is_conditional:
        yield "but these data have none: choose another"
    elif not setting.cell.training.label_dropout:
        way_out = "set training.label_dropout above 0, such as 0.1, or choose another"
        yield f"and the network was never trained without one: {way_out}"


def _interval_problems(cell: Cell) -> Iterator[Problem]:
    interval, steps = cell.sampling.guidance.guided_times, cell.sampling.steps
    if interval is None:
        return
    low, high = interval
    first, last = cell.objective.time_range
    times = [cell.objective.sampling_time(step, steps) for step in _around(cell, high)]
    message = ""
    if low >= last or high < first:
        message = f"times of objective {cell.objective.name} lie in {first:g}..{last:g}; none of them is guided"
    elif times[1] <= low:
        between = f"the sampler's times {times[0]:.4g} and {times[1]:.4g} (sampling.steps {steps})"
        message = f"lies between {between}, so that no step is guided; widen it"
    if message:
        yield Problem(f"sampling.guidance.interval {list(interval)}: {message}", (*GUIDANCE, "interval"))


def _around(cell: Cell, time: float) -> tuple[int, int]:
    """The last step whose time is above `time`, and the first whose time is not."""
    steps = cell.sampling.steps
    step = bisect_left(range(steps), -time, key=lambda step: -cell.objective.sampling_time(step, steps))
    return max(0, step - 1), step


def _gap_problems(setting: Setting) -> Iterator[Problem]:
    metrics = setting.cell.metrics
    if list(metrics.routed_rates) != sorted(set(metrics.routed_rates)):
        message = f"metrics.routed_rates {list(metrics.routed_rates)}: must ascend"
        yield Problem(message, ("metrics", "routed_rates"))
    elif metrics.routed_rates:
        rates, at = metrics.routed_rates, ("metrics", "routed_blocks")
        yield from _block_problems(setting, "metrics.routed_rates", metrics.routed_blocks, rates, at)


def _block_problems(
    setting: Setting, what: str, blocks: Sequence[Route], rates: Sequence[float], loc: Loc
) -> Iterator[Problem]:
    """Blocks that are missing, outside the backbone, or refused by its rules at one of the rates."""
    method = setting.cell.method
    if method.family.has_shallow_path and not rates:
        if blocks:
            yield Problem(f"{dotted(loc)}: method {method.name} drops its own deep path; leave the key out", loc)
    elif not method.family.is_plain_backbone:
        yield Problem(f"{what} runs the plain backbone, which method {method.name} does not: leave it out", loc)
    elif not blocks and not setting.cell.routes:
        yield Problem(f"{what} needs blocks, and this cell has no routes: add {loc[-1]}: 2:8", loc)
    else:
        try:
            for rate in rates or (0.0,):
                routes = setting.at_rate(blocks, rate)
        except ValueError as error:
            yield Problem(f"{dotted(loc)}: {error}", loc)
        else:
            for message in () if rates else _not_removable(setting, routes):
                yield Problem(f"{dotted(loc)}: path_drop {message}", loc)


def _not_removable(setting: Setting, routes: tuple[Route, ...]) -> Iterator[str]:
    """Why removing the blocks of these routes leaves no valid network."""
    dropped = Branch("weak", routes=routes, drops_path=True).dropped_blocks
    last = setting.family.num_blocks(setting.spec) - 1
    skips = setting.family.long_skips(setting.spec)
    halved = [(first, end) for first, end in skips if (first in dropped) != (end in dropped)]
    if len(dropped) > last:
        yield "leaves no block to its weak branch: keep some"
    elif halved:
        a, b = halved[0]
        start = max(1, min(*dropped, last - max(dropped)))
        yield (
            f"would leave out one end of the long skip of {setting.family.name} that joins block {a} to block {b}; "
            f"take blocks that are symmetrical about the middle, such as {start}:{last - start}"
        )


def _decay_problems(setting: Setting) -> Iterator[Problem]:
    """The first rate that a family refuses while the rate decays."""
    rule = setting.cell.sampling.guidance
    branches = [branch for branch in rule.branches if branch is not None and branch.decays]
    if not branches or setting.family.check_routes is no_extra_rule:
        return
    try:
        for branch, rate in zip(branches, rule.rates, strict=True):
            for passed in _rates(setting, branch, rate):
                setting.at_rate(rule.routed_blocks or (), passed)
    except ValueError as error:
        message = f"sampling.guidance.decay: on the way down, {error}; or leave decay out"
        yield Problem(message, (*GUIDANCE, "decay"))


def _rates(setting: Setting, branch: Branch, rate: float) -> Iterator[float]:
    """`rate` over the sampling steps, once for each number of kept tokens."""
    tokens, steps = setting.spec.num_tokens, setting.cell.sampling.steps

    def kept(step: int) -> int:
        return Route(0, 0, rate * branch.share_at(step, steps)).kept(tokens)

    step = 0
    while step < steps:
        yield rate * branch.share_at(step, steps)
        step = bisect_right(range(steps), kept(step), lo=step, key=kept)
