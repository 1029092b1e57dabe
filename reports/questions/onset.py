"""From how much compute on routing pays, by a study that stated so before it ran, and what was looked at after."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, NamedTuple

import pandas as pd

from tread_bench.core.numbers.curves import Curve
from tread_bench.core.numbers.onset import LogRatio, Onset, Ratio, log_ratios, onset
from tread_bench.core.stored.documents import Registered
from tread_bench.core.stored.records import Record, paired_seed
from tread_bench.reports import requested
from tread_bench.reports.figure import Figure
from tread_bench.reports.text.numbers import names, plural


class Arm(NamedTuple):
    """What trainings of several lengths and seeds have in common; `route` is "" for dense training."""

    tokens: int
    width: str  # the backbone without its depth
    depth: int
    route: str


@dataclass(frozen=True)
class Panel:
    """A route at one number of tokens: its ratios by length, the shortest first, and by reference, dense before the
    controls; those of loss decide, those of FID stand beside, if every length has them.
    """

    tokens: int
    route: str
    macs: Sequence[float]  # of a whole training, by length
    references: Sequence[str]
    loss: Sequence[Sequence[Ratio]]
    fid: Sequence[Sequence[Ratio]]
    found: Onset


def panels(records: Sequence[Record], stated: Registered | None) -> list[Panel]:
    """Return the panels of a run that stated a hypothesis; none without one."""
    if stated is None:
        return []
    arms = _arms(records)
    routes = sorted({(arm.tokens, arm.route) for arm in arms if arm.route})
    made = []
    for tokens, route in routes:
        # Geometric means over widths, by length and reference.
        of_widths = [arm for arm in arms if (arm.tokens, arm.route) == (tokens, route)]
        first, loss = _over_widths(arms, of_widths, "validation_loss", stated)
        if first is None:
            continue
        _, fid = _over_widths(arms, of_widths, "fid", stated)
        references = list(dict.fromkeys(name for _, name in loss))
        lengths = range(len(loss) // len(references))
        rows = [[loss[place, name] for name in references] for place in lengths]
        beside = [[fid[place, name] for name in references] for place in lengths] if fid.keys() == loss.keys() else []

        # The compute of each length.
        ends = _ends(arms[first], "validation_loss").values()
        macs = [mean(one[place][0] for one in ends if len(one) == len(lengths)) for place in lengths]
        made.append(Panel(tokens, route, macs, references, rows, beside, onset(rows, len(routes))))
    return made


def _arms(records: Sequence[Record]) -> dict[Arm, list[Record]]:
    """The finished cells of plain routing and of dense training, by arm."""
    arms: dict[Arm, list[Record]] = {}
    for record in records:
        if record.status != "done" or record.last is None or record.cost is None:
            continue
        is_routed = requested.is_routing_alone(record) and bool(record.routes)
        if requested.is_evaluated_only(record) or not (is_routed or requested.is_trained_densely(record)):
            continue
        backbone = dict(record.config["backbone"])
        depth = int(backbone.pop("depth", 0))
        route = ", ".join(filter(None, (requested.route(record), requested.scheduled(record))))
        width = json.dumps(backbone, sort_keys=True)
        arms.setdefault(Arm(record.cost.image_tokens, width, depth, route if is_routed else ""), []).append(record)
    return arms


def _ends(records: Sequence[Record], figure: str) -> dict[int, list[tuple[float, float]]]:
    """Training MACs and figure at the end of each training, by paired seed, the shortest first."""
    found: dict[int, list[tuple[float, float]]] = {}
    for record in records:
        last = record.last
        value = last.figure(figure) if last else None
        if last and last.training_macs and value and value > 0:
            found.setdefault(paired_seed(record), []).append((float(last.training_macs), value))
    return {seed: sorted(ends) for seed, ends in found.items()}


def _over_widths(
    arms: Mapping[Arm, Sequence[Record]], of_widths: Sequence[Arm], figure: str, stated: Registered
) -> tuple[Arm | None, dict[tuple[int, str], Ratio]]:
    """The first width that has ratios, and these by length and reference, over the seeds that have all lengths of both.

    They are means over the widths that have the same lengths and references.
    """
    # Of each width, the ratios by length and reference.
    of_each: list[tuple[Arm, dict[tuple[int, str], Ratio]]] = []
    for own in of_widths:
        routed = _ends(arms[own], figure)
        lengths = max(map(len, routed.values()), default=0)
        dense = [arm for arm in arms if arm[:2] == own[:2] and not arm.route]
        dense.sort(key=lambda arm: (arm.depth != own.depth, arm.depth))
        if lengths < 2 or not dense or dense[0].depth != own.depth:
            continue
        found: dict[tuple[int, str], Ratio] = {}
        for arm in dense:
            reference = _ends(arms[arm], figure)
            by_seed: dict[int, Sequence[LogRatio | None]] = {}
            for seed in sorted(reference.keys() & routed.keys()):
                both = reference[seed], routed[seed]
                if all(len(ends) == lengths for ends in both):
                    above, below = (Curve(*map(tuple, zip(*ends, strict=True))) for ends in both)
                    by_seed[seed] = log_ratios(above, below, stated.hypothesis.margin) or [None] * lengths
            for place in range(lengths):
                found[place, _name(arm, own)] = Ratio({seed: logs[place] for seed, logs in by_seed.items()})
        of_each.append((own, found))

    # Means over the widths that have what the first one has.
    if not of_each:
        return None, {}
    first, of_first = of_each[0]
    alike = [found for _, found in of_each if found.keys() == of_first.keys()]
    return first, {key: Ratio.mean_of([found[key] for found in alike]) for key in of_first}


def _name(dense: Arm, routed: Arm) -> str:
    """What a dense arm is called: by its number of blocks, where that is not the one of what is routed."""
    return "dense" if dense.depth == routed.depth else f"{dense.depth} blocks"


def statements(found: Sequence[Panel], records: Sequence[Record], stated: Registered, is_over: bool) -> list[str]:
    """Return from where on routing pays, a sentence for each number of tokens, and why some of it is inconclusive."""
    open_because = list(_unsettled(records, stated, is_over))
    said = []
    for panel in found:
        answer, place = panel.found.answer, panel.found.first
        is_open = bool(open_because) or answer == "inconclusive"
        if is_open:
            what = "is inconclusive"
        elif place is None:
            what = f"does not pay within what was measured, up to {panel.macs[-1]:.3g} training MACs"
        elif place == 0:
            what = f"pays at every budget measured, from {panel.macs[0]:.3g} training MACs on"
        else:
            what = f"begins to pay at {panel.macs[place]:.3g} training MACs"
        at_length = panel.loss[-1 if place is None else place]
        margin = stated.hypothesis.margin
        if not is_open and margin != 1:
            what += f" by more than {margin:g} times"
        elif is_open and not open_because and any(None in ratio.by_seed.values() for ratio in at_length):
            what += ", since a loss does not fall with every length"
        each = [f"{name} {ratio_in_words(one)}" for name, one in zip(panel.references, at_length, strict=True)]
        said.append(
            f"With {plural(panel.tokens, 'token')}, {panel.route} {what} (compute of the reference over its own at "
            f"equal loss there: {'; '.join(each)})."
        )
    return [*said, *open_because]


def ratio_in_words(ratio: Ratio) -> str:
    """Return a ratio with its interval, or the bound that it is."""
    estimate = ratio.estimate
    if estimate is None:
        return "not known"
    if ratio.is_least or ratio.is_most:
        return f"at {'least' if ratio.is_least else 'most'} {estimate.mean:.3g}"
    if estimate.bounds is None:
        return f"{estimate.mean:.3g}, one seed"
    return f"{estimate.mean:.3g}, {estimate.bounds[0]:.3g} to {estimate.bounds[1]:.3g}"


def answers(
    found: Sequence[Panel], records: Sequence[Record], stated: Registered, is_over: bool
) -> list[dict[str, Any]]:
    """Return the same as data; `from_training_macs` is None where a route is not shown to pay."""
    is_open = any(_unsettled(records, stated, is_over))
    made: list[dict[str, Any]] = []
    for panel in found:
        line = {"tokens": panel.tokens, "route": panel.route, "answer": panel.found.answer, "from_training_macs": None}
        if is_open:
            line["answer"] = "inconclusive"
        elif panel.found.first is not None:
            line["from_training_macs"] = panel.macs[panel.found.first]
        made.append(line | {"up_to_training_macs": panel.macs[-1]})
    return made


def _unsettled(records: Sequence[Record], stated: Registered, is_over: bool) -> Iterator[str]:
    """What makes every answer inconclusive."""
    # Trainings that are missing, and seeds that were not stated.
    failed = dict.fromkeys(record.row for record in records if record.status != "done")
    if failed:
        yield f"Inconclusive: not all trainings ended well, and no seed may be left out ({names(failed)})."
    elif not is_over:
        yield "Inconclusive so far: not all cells have ended."
    elif not _is_whole(records):
        yield "Inconclusive: not every arm has the same seeds and lengths at every width."
    seeds = {paired_seed(record) for record in records}
    stop = stated.hypothesis.stop
    if len(seeds) != stop:
        yield f"Inconclusive: the study was to stop after {plural(stop, 'seed')}, and has {len(seeds)}."

    # Learning rates that may not be the best at every length, or beyond which a better one may lie.
    reasons: dict[str, list[str]] = {}
    for row, tuning in {record.row: record.tuning for record in records if record.tuning}.items():
        best, there = tuning.best, tuning.best_there
        if tuning.has_moved and best and there:
            from_to = f"{row} from {best.value:g} at the shortest to {there.value:g}"
            reasons.setdefault("the best learning rate moved with the length", []).append(from_to)
        if is_over and tuning.check and there is None:
            reasons.setdefault("no candidate could be trained on every seed at the row's own length", []).append(row)
        if best and not best.is_bracketed:
            reasons.setdefault("the best learning rate lies at an edge of the candidates", []).append(row)
        if there and not there.is_bracketed:
            reasons.setdefault("at its own length, the best learning rate lies at an edge", []).append(row)
    yield from (f"Inconclusive: {reason}: {'; '.join(rows)}." for reason, rows in reasons.items())


def _is_whole(records: Sequence[Record]) -> bool:
    """Whether all arms of a number of tokens have each seed at as many lengths, and all widths the same routes."""
    seeds = {paired_seed(record) for record in records}
    lengths: dict[int, set[int]] = {}
    routes: dict[int, dict[str, list[str]]] = {}
    for arm, members in _arms(records).items():
        ends = _ends(members, "validation_loss")
        lengths.setdefault(arm.tokens, set()).update(len(ends.get(seed, ())) for seed in seeds)
        routes.setdefault(arm.tokens, {}).setdefault(arm.width, []).append(arm.route)
    for tokens, widths in routes.items():
        of_widths = {tuple(sorted(of_width)) for of_width in widths.values()}
        if len(of_widths) > 1 or len(lengths[tokens]) > 1:
            return False
    return True


def figure(found: Sequence[Panel]) -> Figure:
    """Compute of each reference over a route's at equal loss and at equal FID, over training MACs."""
    # A line of the frame for each ratio, with the p-values that the answer rests on.
    lines: list[tuple[object, ...]] = []
    for panel in found:
        for what, of_lengths in (("equal validation loss (decides)", panel.loss), ("equal FID", panel.fid)):
            for place, ratios in enumerate(of_lengths):
                for reference, ratio in zip(panel.references, ratios, strict=True):
                    estimate = ratio.estimate
                    if estimate is not None:
                        name = f"{reference} over {panel.route}, {panel.tokens} tokens"
                        shown = (estimate.mean, estimate.low, estimate.high, estimate.n, ratio_in_words(ratio))
                        tests = (ratio.p_value, panel.found.p_values[place]) if what != "equal FID" else (None, None)
                        lines.append((name, name, what, panel.macs[place], *shown, *tests))
    lines.sort(key=lambda line: line[2] == "equal FID")
    columns = ["row", "name", "what", "macs", "ratio", "low", "high", "seeds", "said", "p", "p_of_all"]
    return Figure(
        name="onset",
        highest_first=True,
        title="Compute of a reference over a route’s",
        caption="Above 1, the route needs less compute than the reference for the same figure. Means over widths and "
        "paired seeds, with 95 % intervals; a ratio beyond what was measured is a bound. Nothing is extrapolated. "
        "Validation loss decides, FID stands beside.",
        lines=pd.DataFrame(lines, columns=columns),
        x="macs",
        y="ratio",
        panel="what",
        low="low",
        high="high",
        still=1.0,
        logarithmic="x",
        extra={"said": "ratio", "p": "p that the route is no cheaper", "p_of_all": "p for all references and longer"},
        titles={"macs": "training MACs", "ratio": "reference over routed", "what": "at"},
    )  # fmt: skip
