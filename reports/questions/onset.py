"""From how much compute on routing pays, by a study that stated so before it ran, and what was looked at after."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tread_bench.core.numbers.onset import Arm, Onset, Ratio, compute_ratios, onset
from tread_bench.core.stored.documents import Registered
from tread_bench.core.stored.records import Record, paired_seed
from tread_bench.reports import requested
from tread_bench.reports.figure import Figure
from tread_bench.reports.text.numbers import names, plural, ratio_in_words

Answers = tuple[list[str], list[dict[str, Any]]]  # sentences, and the same as data


@dataclass(frozen=True, eq=False)
class Panel:
    """A route at one number of tokens: its ratios by length, the shortest first, and by reference, dense before the
    controls; those of loss decide, those of FID stand beside.

    `is_whole` says of the study whether all arms of each number of tokens have each seed at as many lengths, and all of
    its widths the same arms.
    """

    tokens: int
    route: str
    macs: Sequence[float]  # of a whole training, by length
    references: Sequence[str]
    loss: Sequence[Sequence[Ratio]]
    fid: Sequence[Sequence[Ratio]]
    found: Onset
    is_whole: bool


def panels(records: Sequence[Record], stated: Registered) -> Iterator[Panel]:
    """The panels of a run that stated a hypothesis."""
    # The finished cells of plain routing and of dense training: MACs, loss and FID at the end of each, by arm and seed.
    arms: dict[Arm, dict[int, list[tuple[float, float, float]]]] = {}
    for record in records:
        last, cost = record.last, record.cost
        is_routed = requested.is_routing_alone(record) and bool(record.routes)
        is_arm = is_routed or requested.is_trained_densely(record)
        if record.status != "done" or cost is None or requested.is_evaluated_only(record) or not is_arm:
            continue
        if last is None or not last.training_macs or last.validation_loss is None:
            continue
        route = ", ".join(filter(None, (requested.route(record), requested.scheduled(record))))
        arm = Arm.of(cost.image_tokens, record.config["backbone"], route if is_routed else "")
        end = (float(last.training_macs), last.validation_loss, math.nan if last.fid is None else last.fid)
        insort(arms.setdefault(arm, {}).setdefault(paired_seed(record), []), end)

    # Whether the study is even.
    seeds = sorted({paired_seed(record) for record in records})
    lengths_of = {(arm.tokens, len(of_seeds.get(seed, ()))) for arm, of_seeds in arms.items() for seed in seeds}
    of_widths = {(arm.tokens, *sorted(one.route for one in arms if one[:2] == arm[:2])) for arm in arms}
    is_whole = len(lengths_of) == len(of_widths) == len({arm.tokens for arm in arms})

    routes = sorted({(arm.tokens, arm.route) for arm in arms if arm.route})
    for tokens, route in routes:
        # The arms that are compared at each width, by their lengths and the depths of the controls.
        compared: dict[tuple[int, ...], list[list[Arm]]] = {}
        for arm, of_seeds in arms.items():
            lengths = max(map(len, of_seeds.values()))
            dense = arm._replace(route="")
            if (arm.tokens, arm.route) == (tokens, route) and dense in arms and lengths > 1:
                controls = sorted({one for one in arms if one._replace(depth=arm.depth) == dense} - {dense})
                compared.setdefault((lengths, *(one.depth for one in controls)), []).append([arm, dense, *controls])
        if not compared:
            continue

        # Widths like the first, and the seeds that have all lengths of all their arms.
        (lengths, *depths), alike = next(iter(compared.items()))
        members = [arm for group in alike for arm in group]
        shared = [seed for seed in seeds if all(len(arms[arm].get(seed, ())) == lengths for arm in members)]

        # Ratios at equal loss and at equal FID, by length and reference.
        ends = [[[arms[arm][seed] for seed in shared] for arm in same] for same in zip(*alike, strict=True)]
        routed, *others = np.reshape(ends, (2 + len(depths), len(alike), len(shared), lengths, 3))
        margin = stated.hypothesis.margin
        loss = compute_ratios([one[..., [0, 1]] for one in others], routed[..., [0, 1]], margin)
        fid = compute_ratios([one[..., [0, 2]] for one in others], routed[..., [0, 2]], margin)
        macs = [end[0] for end in max(arms[members[0]].values(), key=len)]
        references = ["dense", *(f"{depth} blocks" for depth in depths)]
        yield Panel(tokens, route, macs, references, loss, fid, onset(loss, len(routes)), is_whole)


def answered(found: Sequence[Panel], records: Sequence[Record], stated: Registered, is_over: bool) -> Answers:
    """Return from where on routing pays, a sentence for each route and number of tokens, and the same as data.

    Sentences that say why all of it is inconclusive come last. `from_training_macs` is None where a route is not shown
    to pay.
    """
    reasons = list(_unsettled(found, records, stated.hypothesis.stop, is_over))
    sentences = []
    data: list[dict[str, Any]] = []
    for panel in found:
        # Ratios at the length from which on it pays, or at the longest.
        place = panel.found.first
        at_length = panel.loss[-1 if place is None else place]
        each = [f"{name} {ratio_in_words(one)}" for name, one in zip(panel.references, at_length, strict=True)]

        # The answer, which nothing may unsettle.
        answer = "inconclusive" if reasons else panel.found.answer
        begins = None if reasons or place is None else panel.macs[place]
        line = {"tokens": panel.tokens, "route": panel.route, "answer": answer, "from_training_macs": begins}
        data.append(line | {"up_to_training_macs": panel.macs[-1]})
        if answer == "inconclusive":
            what = "is inconclusive"
            if not reasons and any(np.isnan(ratio.logs).any() for ratio in at_length):
                what += ", since a loss does not fall with every length"
        else:
            what = f"does not pay within what was measured, up to {panel.macs[-1]:.3g} training MACs"
            if begins is not None:
                what = f"begins to pay at {begins:.3g} training MACs"
            if place == 0:
                what = f"pays at every budget measured, from {begins:.3g} training MACs on"
            if stated.hypothesis.margin != 1:
                what += f" by more than {stated.hypothesis.margin:g} times"
        sentences.append(
            f"With {plural(panel.tokens, 'token')}, {panel.route} {what} (compute of the reference over its own at "
            f"equal loss there: {'; '.join(each)})."
        )
    return [*sentences, *reasons], data


def _unsettled(found: Sequence[Panel], records: Sequence[Record], stop: int, is_over: bool) -> Iterator[str]:
    """What makes every answer inconclusive."""
    # Trainings that are missing, and seeds that were not stated.
    failed = dict.fromkeys(record.row for record in records if record.status != "done")
    if failed:
        yield f"Inconclusive: not all trainings ended well, and no seed may be left out ({names(failed)})."
    elif not is_over:
        yield "Inconclusive so far: not all cells have ended."
    elif not all(panel.is_whole for panel in found):
        yield "Inconclusive: not every arm has the same seeds and lengths at every width."
    seeds = {paired_seed(record) for record in records}
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
        "Validation loss decides, FID stands beside where every seed has it.",
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
