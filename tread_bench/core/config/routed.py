"""Rules for running a trained network routed or without some blocks: guidance and the training-inference gap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.families import BackboneSpec, Family
from tread_bench.core.describe.routes import ResolvedRoute, Route, resolve_routes
from tread_bench.core.problems import Loc, Problem, dotted, refuse

GUIDANCE: Loc = ("sampling", "guidance")


class Setting(NamedTuple):
    """A cell with its routes in block numbers, and its backbone."""

    cell: Cell
    family: Family
    spec: BackboneSpec


def setting_of(cell: Cell) -> Setting:
    """Return the setting of a resolved cell."""
    return Setting(cell, cell.backbone.family(), cell.backbone.spec(cell.data))


def with_blocks(setting: Setting) -> Cell:
    """Return the cell with every `blocks` of guidance and metrics in block numbers. Raises SuiteError."""
    refuse([*_guidance_problems(setting), *_gap_problems(setting)])
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
    cell, rule = setting.cell, setting.cell.sampling.guidance

    # A branch without the label.
    if any(branch is not None and not branch.label for branch in rule.branches):
        why = ""
        if not setting.spec.num_classes and setting.spec.context_shape is None:
            why = "but these data have none: choose another"
        elif not cell.training.label_dropout:
            way_out = "set training.label_dropout above 0, such as 0.1, or choose another"
            why = f"and the network was never trained without one: {way_out}"
        if why:
            yield Problem(f"sampling.guidance {rule.name} leaves out the label, {why}", (*GUIDANCE, "name"))

    # An interval that holds no step.
    if rule.guided_times is not None:
        low, high = rule.guided_times
        times = [cell.objective.sampling_time(step, cell.sampling.steps) for step in range(cell.sampling.steps)]
        if not any(low < time <= high for time in times):
            message = f"none of the sampler's times lies in it, from {times[-1]:.4g} to {times[0]:.4g}; widen it"
            yield Problem(f"sampling.guidance.interval [{low}, {high}]: {message}", (*GUIDANCE, "interval"))

    # Blocks that cannot be routed or left out.
    if rule.routed_blocks is not None:
        what, at = f"sampling.guidance {rule.name}", (*GUIDANCE, "blocks")
        yield from _block_problems(setting, what, rule.routed_blocks, rule.rates, at)


def _gap_problems(setting: Setting) -> Iterator[Problem]:
    rates, blocks = setting.cell.metrics.routed_rates, setting.cell.metrics.routed_blocks
    if list(rates) != sorted(set(rates)):
        yield Problem(f"metrics.routed_rates {list(rates)}: must ascend", ("metrics", "routed_rates"))
    elif rates:
        yield from _block_problems(setting, "metrics.routed_rates", blocks, rates, ("metrics", "routed_blocks"))


def _block_problems(
    setting: Setting, what: str, blocks: Sequence[Route], rates: Sequence[float], loc: Loc
) -> Iterator[Problem]:
    """Blocks that are missing, outside the backbone, or refused by its rules at one of the rates; without rates, that
    cannot be left out.
    """
    method = setting.cell.method
    if method.family.has_shallow_path and not rates:
        if blocks:
            yield Problem(f"{dotted(loc)}: method {method.name} drops its own deep path; leave the key out", loc)
        return
    if not method.family.is_plain_backbone:
        yield Problem(f"{what} runs the plain backbone, which method {method.name} does not: leave it out", loc)
        return
    if not blocks and not setting.cell.routes:
        yield Problem(f"{what} needs blocks, and this cell has no routes: add {loc[-1]}: 2:8", loc)
        return
    try:
        for rate in rates or (0.0,):
            at_rate = [Route(route.start, route.end, rate) for route in blocks or setting.cell.routes]
            routes = setting.family.resolve(setting.spec, at_rate, setting.cell.selector)
    except ValueError as error:
        yield Problem(f"{dotted(loc)}: {error}", loc)
        return
    if rates:
        return

    # What is left without the blocks must be a network.
    dropped = {block for route in routes for block in route.blocks}
    halved = [skip for skip in setting.family.long_skips(setting.spec) if len(dropped.intersection(skip)) == 1]
    if len(dropped) == setting.family.num_blocks(setting.spec):
        yield Problem(f"{dotted(loc)}: path_drop leaves no block to its weak branch: keep some", loc)
    elif halved:
        first, last = halved[0]
        yield Problem(
            f"{dotted(loc)}: path_drop would leave out one end of the long skip of {setting.family.name} that joins "
            f"block {first} to block {last}; take blocks that are symmetrical about the middle",
            loc,
        )
