"""Rules for running a trained network routed or without some blocks: guidance, the gap of training to inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tread_bench.config import Cell
from tread_bench.registry import BackboneSpec, Family
from tread_bench.routes import Route, resolve_routes
from tread_bench.suite_errors import Loc, Problem, dotted

# Methods whose network is judged as the plain backbone and whose tokens keep their value while they are away.
PLAIN = ("dense", "tread", "layer_skip")
OWN_SHALLOW_PATH = ("sprint",)
GUIDANCE: Loc = ("sampling", "guidance")


class Setting(NamedTuple):
    """A cell with its routes in block numbers, and its backbone."""

    cell: Cell
    family: Family
    spec: BackboneSpec

    def at_rate(self, blocks: Sequence[Route], rate: float) -> tuple[Route, ...]:
        """`blocks`, or those of the cell's routes, at that rate and in block numbers. Raises ValueError."""
        routes = [Route(route.start, route.end, rate) for route in blocks or self.cell.routes]
        return self.family.resolve(self.spec, routes, self.cell.selector)


def setting_of(cell: Cell) -> Setting:
    """Of a resolved cell."""
    return Setting(cell, cell.backbone.family(), cell.backbone.spec(cell.data))


def with_blocks(setting: Setting) -> Cell | list[Problem]:
    """The cell with every `blocks` of its guidance and its metrics in block numbers, or what is wrong with them."""
    problems = [*_guidance_problems(setting), *_gap_problems(setting)]
    if problems:
        return problems
    cell, rule, metrics = setting.cell, setting.cell.sampling.guidance, setting.cell.metrics
    changes: dict[str, Any] = {}
    if hasattr(rule, "blocks"):
        rule = rule.model_copy(update={"blocks": _numbered(setting, rule.blocks)})
        changes["sampling"] = cell.sampling.model_copy(update={"guidance": rule})
    if metrics.routed_rates:
        changes["metrics"] = metrics.model_copy(update={"routed_blocks": _numbered(setting, metrics.routed_blocks)})
    return cell.model_copy(update=changes) if changes else cell


def _numbered(setting: Setting, blocks: Sequence[Route]) -> tuple[Route, ...]:
    if setting.cell.method.name in OWN_SHALLOW_PATH:
        return ()
    found = resolve_routes(blocks or setting.cell.routes, setting.family.num_blocks(setting.spec))
    return tuple(Route(route.start, route.end, 0) for route in found)


def _guidance_problems(setting: Setting) -> Iterator[Problem]:
    rule: Any = setting.cell.sampling.guidance
    branches = [branch for branch in rule.branches if branch is not None]
    if not setting.spec.num_classes and not all(branch.label for branch in branches):
        message = f"sampling.guidance {rule.name} leaves out the label, but these data have none: choose another"
        yield Problem(message, (*GUIDANCE, "name"))
    yield from _interval_problems(setting.cell)
    if hasattr(rule, "blocks"):
        rates = () if rule.name == "path_drop" else (rule.strong, rule.weak)
        yield from _block_problems(setting, f"sampling.guidance {rule.name}", rule.blocks, rates, (*GUIDANCE, "blocks"))


def _interval_problems(cell: Cell) -> Iterator[Problem]:
    interval = getattr(cell.sampling.guidance, "interval", None)
    first, last = cell.objective.time_range
    if interval and (interval[0] >= last or interval[1] <= first):
        rule = f"times of objective {cell.objective.name} lie in {first:g}..{last:g}; none of them is guided"
        yield Problem(f"sampling.guidance.interval {list(interval)}: {rule}", (*GUIDANCE, "interval"))


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
    """Blocks that are missing, that the backbone has not, or that its rules refuse at one of the rates."""
    method = setting.cell.method.name
    if method in OWN_SHALLOW_PATH and not rates:
        if blocks:
            yield Problem(f"{dotted(loc)}: method {method} drops its own deep path; leave the key out", loc)
    elif method not in PLAIN:
        yield Problem(f"{what} runs the plain backbone, which method {method} does not: leave it out", loc)
    elif not blocks and not setting.cell.routes:
        yield Problem(f"{what} needs blocks, and this cell has no routes: add {loc[-1]}: 2:8", loc)
    else:
        try:
            for rate in rates or (0.0,):
                setting.at_rate(blocks, rate)
        except ValueError as error:
            yield Problem(f"{dotted(loc)}: {error}", loc)
