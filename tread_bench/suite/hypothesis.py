"""What the rows of a suite must be for the rule of its hypothesis to decide (docs/methods/onset.md). No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tread_bench.core.config.choices import PLAINLY_ROUTED
from tread_bench.core.config.suite import SAME_BUDGET, Cell, Hypothesis
from tread_bench.core.names import few
from tread_bench.core.numbers.costs import training_macs
from tread_bench.core.numbers.onset import Arm
from tread_bench.core.problems import Loc, Problem

_AT: Loc = ("hypothesis",)
_NAMED = 3  # rows in a message


_Lengths = Sequence[tuple[int, str]]  # of an arm: training MACs and row, the shortest first


def undecidable(hypothesis: Hypothesis, rows: Iterable[tuple[str, Cell]]) -> Iterator[Problem]:
    """The problems of a suite whose hypothesis its rows could never decide; rows of other methods do not count."""
    # The arms, and what those of one number of tokens must share.
    lengths: dict[Arm, list[tuple[int, str]]] = {}
    apart: dict[tuple[int, str], dict[str, str]] = {}  # by what they must share: a row of each
    for name, cell in rows:
        is_routed = bool(cell.routes) and cell.method == PLAINLY_ROUTED and not cell.auxiliary
        if not cell.trains or not (is_routed or cell.is_plainly_dense):
            continue
        tokens = cell.backbone.spec(cell.data).num_tokens
        routing = cell.model_dump_json(include={"routes", "selector", "schedule"}) if is_routed else ""
        arm = Arm.of(tokens, cell.backbone.model_dump(mode="json"), routing)
        lengths.setdefault(arm, []).append((training_macs(cell), name))
        for key, value in (("data", cell.data), ("objective", cell.objective), ("backbone", cell.backbone.name)):
            apart.setdefault((tokens, key), {}).setdefault(str(value), name)
    for (tokens, key), names in apart.items():
        if len(names) > 1:
            rule = "arms are compared and widths averaged, so those of one number of tokens must share it"
            said = few([*names.values()], _NAMED)
            yield Problem(f"{hypothesis.test}: rows of {tokens} tokens differ in {key} ({said}); {rule}", _AT)

    # The references of each route, and the lengths of all arms of a number of tokens with routes.
    arms = {arm: sorted(found) for arm, found in lengths.items()}
    routes = dict.fromkeys((arm.tokens, arm.route) for arm in arms if arm.route)
    if not routes:
        rule = "add rows of method tread, and dense ones of the same size and training MACs"
        yield Problem(f"{hypothesis.test}: no row has routes alone, so there is nothing to decide; {rule}", _AT)
    for tokens, route in routes:
        yield from _without_references(arms, tokens, route)
    for tokens in sorted({tokens for tokens, _ in routes}):
        yield from _unequal_lengths({arm: own for arm, own in arms.items() if arm.tokens == tokens}, hypothesis)


def _without_references(arms: Mapping[Arm, _Lengths], tokens: int, route: str) -> Iterator[Problem]:
    """A route without a dense network of its own depth, at several depths of a width, or with controls at one width."""
    depths: dict[str, int] = {}
    controls: dict[frozenset[int], str] = {}  # a row beside each set of depths
    for arm, ((_, first), *_) in arms.items():
        if (arm.tokens, arm.route) != (tokens, route):
            continue
        dense = {one.depth for one in arms if (one.tokens, one.width, one.route) == (tokens, arm.width, "")}
        if arm.depth not in dense:
            rule = "add one to the same training MACs; the route is compared with it"
            yield Problem(f"row {first!r} has no dense row of the same tokens, width and depth: {rule}", _AT)
        if depths.setdefault(arm.width, arm.depth) != arm.depth:
            rule = "a route is one arm, so its networks of one width must have one depth; make a suite of each"
            yield Problem(f"row {first!r} has the route of another row in a network of another depth: {rule}", _AT)
        controls.setdefault(frozenset(dense - {arm.depth}), first)
    if len(controls) > 1:
        rule = "ratios are averaged over widths, so each must have the same controls, by their depth"
        yield Problem(f"rows {few([*controls.values()], _NAMED)} have other dense rows beside them: {rule}", _AT)


def _unequal_lengths(arms: Mapping[Arm, _Lengths], hypothesis: Hypothesis) -> Iterator[Problem]:
    """Arms of one number of tokens that are not trained to the same budgets, or to too few of them."""
    # As many lengths of each, at the same training MACs.
    counts = {len(own): own[-1][1] for own in arms.values()}
    if len(counts) > 1 or 1 in counts:
        rule = "arms and widths of a number of tokens need as many lengths, two or more, for a ratio is read on a curve"
        found = " and ".join(f"row {row!r} has {count}" for count, row in sorted(counts.items()))
        yield Problem(f"{hypothesis.test}: of lengths, {found}; {rule}; add rows of other training MACs", _AT)
        return
    for at_length in zip(*arms.values(), strict=True):
        (least, cheap), (most, dear) = min(at_length), max(at_length)
        if most > SAME_BUDGET * least:
            apart = f"row {dear!r} costs {most:.3g} training MACs and row {cheap!r} {least:.3g}"
            rule = f"at each length all arms and widths must cost the same, within {SAME_BUDGET - 1:.0%}"
            way_out = "training: {budget: {macs_of: DENSE ROW}}, and widths as many iterations as make the same MACs"
            yield Problem(f"{hypothesis.test}: {apart}; {rule}; give rows {way_out}", _AT)
            return

    # Lengths that a loss can be read between, with the margin.
    (first, _), (second, _), *longer = next(iter(arms.values()))
    if hypothesis.margin > 1 and not longer:
        rule = "a loss is read between lengths, and only a third says how far that is off; add one, or use margin 1"
        yield Problem(f"margin {hypothesis.margin:g}: the arms have two lengths; {rule}", (*_AT, "margin"))
    elif hypothesis.margin > second / first:
        step = f"the second length is {second / first:.3g} times the first"
        rule = "a length is compared with one that cost the margin less, and nothing is extrapolated"
        yield Problem(f"margin {hypothesis.margin:g}: {step}; it must not be larger, since {rule}", (*_AT, "margin"))
