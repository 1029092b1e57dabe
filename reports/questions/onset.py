"""From how much compute on routing pays, by a study that stated so before it ran, and what was looked at after."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING, Any

from tread_bench.core.numbers.curves import Curve
from tread_bench.core.numbers.onset import Onset, Ratio, log_ratios, onset
from tread_bench.core.stored.documents import Registered
from tread_bench.core.stored.records import Record, paired_seed
from tread_bench.reports.rows import requested
from tread_bench.reports.text.numbers import names, plural

if TYPE_CHECKING:
    from tread_bench.reports.figures.draw import Figure

Ends = Mapping[int, Sequence[tuple[float, float]]]  # by paired seed: training MACs and figure, by length


@dataclass(frozen=True)
class Panel:
    """A route at one number of tokens: its ratios by length, the shortest first, and by reference, dense before the
    controls; those of loss decide, those of FID stand beside, if every length has them.

    `rising` are the arms whose loss does not fall from one length to the next, so that no ratio is known.
    """

    tokens: int
    route: str
    macs: tuple[float, ...]  # of a whole training, by length
    references: tuple[str, ...]
    loss: tuple[tuple[Ratio, ...], ...]
    fid: tuple[tuple[Ratio, ...], ...]
    rising: tuple[str, ...]
    found: Onset


def panels(records: Sequence[Record], stated: Registered | None) -> list[Panel]:
    """Return the panels of a run that stated a hypothesis; none without one."""
    if stated is None:
        return []
    margin = stated.hypothesis.margin
    arms = arms_of(records)
    routes = sorted({(tokens, route) for tokens, _, _, route in arms if route})
    found = []
    for tokens, route in routes:
        widths = sorted({width for t, width, _, r in arms if (t, r) == (tokens, route)})
        of_loss = [ratios for width in widths if (ratios := _of_width(arms, tokens, width, route, "loss", margin))]
        of_fid = [ratios for width in widths if (ratios := _of_width(arms, tokens, width, route, "fid", margin))]
        if not of_loss:
            continue
        macs, names, _ = of_loss[0]
        loss = _over_widths([ratios for _, _, ratios in of_loss])
        complete = [ratios for _, arms_of_fid, ratios in of_fid if arms_of_fid == names and len(ratios) == len(macs)]
        fid = _over_widths(complete)
        rising = tuple(dict.fromkeys(_rising(arms, tokens, route)))
        found.append(Panel(tokens, route, macs, names, loss, fid, rising, onset(loss, len(routes))))
    return found


def statements(found: Sequence[Panel], records: Sequence[Record], stated: Registered, is_over: bool) -> list[str]:
    """Return from where on routing pays, a sentence for each number of tokens, and why some of it is inconclusive."""
    open_because = list(_unsettled(records, stated, is_over))
    margin = stated.hypothesis.margin
    return [*(_answer(panel, margin, bool(open_because)) for panel in found), *open_because]


def _answer(panel: Panel, margin: float, is_open: bool) -> str:
    """From where on one route pays, with the ratios there."""
    answer, first = panel.found.answer, panel.found.first
    place = len(panel.macs) - 1 if first is None else first
    if not is_open and answer == "pays" and place == 0:
        said = f"pays at every budget measured, from {panel.macs[0]:.3g} training MACs on"
    elif not is_open and answer == "pays":
        said = f"begins to pay at {panel.macs[place]:.3g} training MACs"
    elif not is_open and answer == "does not pay":
        said = f"does not pay within what was measured, up to {panel.macs[-1]:.3g} training MACs"
    elif not is_open and panel.rising:
        said = f"is inconclusive, since the loss of {names(panel.rising)} does not fall with every length"
    else:
        said = "is inconclusive"
    by = f" by more than {margin:g} times" if margin != 1 and not is_open and answer != "inconclusive" else ""
    each = [f"{name} {ratio_in_words(panel.loss[place][k])}" for k, name in enumerate(panel.references)]
    tokens = plural(panel.tokens, "token")
    return (
        f"With {tokens}, {panel.route} {said}{by} (compute of the reference over its own at equal loss there: "
        f"{'; '.join(each)})."
    )


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
    made = []
    for panel in found:
        first = None if is_open else panel.found.first
        made.append(
            {
                "tokens": panel.tokens,
                "route": panel.route,
                "answer": "inconclusive" if is_open else panel.found.answer,
                "from_training_macs": None if first is None else panel.macs[first],
                "up_to_training_macs": panel.macs[-1],
            }
        )
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

    # Learning rates that may not be the best at every length.
    tuned = {record.row: record.tuning for record in records if record.tuning is not None}
    moved = []
    for row, tuning in tuned.items():
        if tuning.has_moved and tuning.best and tuning.best_there:
            moved.append(f"{row} from {tuning.best.value:g} at the shortest to {tuning.best_there.value:g}")
    if moved:
        yield f"Inconclusive: the best learning rate moved with the length: {'; '.join(moved)}."
    unchecked = [row for row, tuning in tuned.items() if is_over and tuning.check and tuning.best_there is None]
    if unchecked:
        yield (
            "Inconclusive: no candidate could be trained on every seed where the learning rate was to be checked, in "
            f"{names(unchecked)}."
        )

    # Learning rates beyond which a better one may lie.
    edge = [row for row, tuning in tuned.items() if (best := tuning.best) and not best.is_bracketed]
    if edge:
        where = "every row" if len(edge) == len(tuned) else names(edge)
        yield f"Inconclusive: the best learning rate lies at an edge of the candidates, in {where}."
    edge_there = [row for row, tuning in tuned.items() if (best := tuning.best_there) and not best.is_bracketed]
    if edge_there:
        yield (
            "Inconclusive: at its own length, the best learning rate lies at an edge of the candidates that could be "
            f"trained, in {names(edge_there)}."
        )


def _is_whole(records: Sequence[Record]) -> bool:
    """Whether all arms of a number of tokens have each seed of the study at as many lengths, and all widths have as
    many arms.
    """
    seeds = {paired_seed(record) for record in records}
    lengths: dict[int, set[int]] = {}  # of any seed, by tokens
    routes: dict[int, dict[str, list[str]]] = {}  # of the arms, by tokens and width
    for (tokens, width, _, route), members in arms_of(records).items():
        ends = ends_of(members, "loss")
        lengths.setdefault(tokens, set()).update(len(ends.get(seed, ())) for seed in seeds)
        routes.setdefault(tokens, {}).setdefault(width, []).append(route)
    arms = ({tuple(sorted(found)) for found in of_widths.values()} for of_widths in routes.values())
    return all(len(found) == 1 for found in lengths.values()) and all(len(found) == 1 for found in arms)


Arm = tuple[int, str, int, str]  # tokens, the backbone without its depth, depth, and the route; "" without


def arms_of(records: Sequence[Record]) -> dict[Arm, list[Record]]:
    """Return the finished cells of plain routing and of dense training, by arm."""
    arms: dict[Arm, list[Record]] = {}
    for record in records:
        if record.status != "done" or record.last is None or record.cost is None:
            continue
        is_routed = requested.is_routing_alone(record) and bool(record.routes)
        is_arm = is_routed or requested.is_trained_densely(record)
        if is_arm and not requested.is_evaluated_only(record):
            backbone = dict(record.config["backbone"])
            depth = int(backbone.pop("depth", 0))
            key = record.cost.image_tokens, json.dumps(backbone, sort_keys=True), depth
            route = ", ".join(filter(None, (requested.route(record), requested.scheduled(record))))
            arms.setdefault((*key, route if is_routed else ""), []).append(record)
    return arms


def _of_width(
    arms: Mapping[Arm, Sequence[Record]], tokens: int, width: str, route: str, figure: str, margin: float
) -> tuple[tuple[float, ...], tuple[str, ...], list[list[Ratio]]] | None:
    """The MACs of each length, the names of the references, and the ratios by length and reference."""
    depth = max(d for t, w, d, r in arms if (t, w, r) == (tokens, width, route))
    routed = ends_of(arms[tokens, width, depth, route], figure)
    dense = sorted((d for t, w, d, r in arms if (t, w, r) == (tokens, width, "")), key=lambda d: (d != depth, d))
    ends = {reference_name(d, depth): ends_of(arms[tokens, width, d, ""], figure) for d in dense}
    lengths = max((len(one) for one in routed.values()), default=0)
    if lengths < 2 or depth not in dense:
        return None
    columns = [_ratios(reference, routed, lengths, margin) for reference in ends.values()]
    whole = [one for one in routed.values() if len(one) == lengths]
    macs = tuple(mean(one[place][0] for one in whole) for place in range(lengths))
    return macs, tuple(ends), [[column[place] for column in columns] for place in range(lengths)]


def _rising(arms: Mapping[Arm, Sequence[Record]], tokens: int, route: str) -> Iterator[str]:
    """The arms beside a route, itself included, whose loss does not fall with every length, in some seed and width."""
    own = {width: depth for t, width, depth, r in arms if (t, r) == (tokens, route)}
    for (t, width, depth, r), members in arms.items():
        if t == tokens and width in own and r in ("", route):
            of_seeds = [[loss for _, loss in ends] for ends in ends_of(members, "loss").values()]
            if any(later >= loss for losses in of_seeds for loss, later in pairwise(losses)):
                yield r or reference_name(depth, own[width])


def reference_name(depth: int, routed_depth: int | None) -> str:
    """Return what a dense arm is called: by its number of blocks, where that is not the one of what is routed."""
    return "dense" if depth == routed_depth else f"{depth} blocks"


def _ratios(reference: Ends, routed: Ends, lengths: int, margin: float) -> list[Ratio]:
    """The ratios to one reference, by length, over the seeds that have all lengths of both."""
    by_seed = {}
    for seed in sorted(reference.keys() & routed.keys()):
        both = reference[seed], routed[seed]
        if all(len(one) == lengths for one in both):
            curves = [Curve(*(tuple(part) for part in zip(*one, strict=True))) for one in both]
            by_seed[seed] = log_ratios(curves[0], curves[1], margin)
    return [Ratio({seed: one[place] if one else None for seed, one in by_seed.items()}) for place in range(lengths)]


def ends_of(records: Sequence[Record], figure: str) -> Ends:
    """Return the end of each training, by paired seed and in the order of their costs."""
    found: dict[int, list[tuple[float, float]]] = {}
    for record in records:
        last = record.last
        value = last and (last.validation_loss if figure == "loss" else last.fid)
        if last is not None and last.training_macs and value and value > 0:
            found.setdefault(paired_seed(record), []).append((float(last.training_macs), value))
    return {seed: sorted(ends) for seed, ends in found.items()}


def _over_widths(of_widths: Sequence[Sequence[Sequence[Ratio]]]) -> tuple[tuple[Ratio, ...], ...]:
    """The geometric means over widths that have the same lengths and references."""
    if not of_widths:
        return ()
    first = of_widths[0]
    alike = [one for one in of_widths if len(one) == len(first) and len(one[0]) == len(first[0])]
    return tuple(
        tuple(Ratio.mean_of([one[place][k] for one in alike]) for k in range(len(first[0])))
        for place in range(len(first))
    )


def figure(found: Sequence[Panel]) -> Figure:
    """Compute of each reference over a route's at equal loss and at equal FID, over training MACs."""
    import pandas as pd

    from tread_bench.reports.figures.draw import Figure

    # A line of the frame for each ratio, with the p-values that the answer rests on.
    lines: list[tuple[object, ...]] = []
    for what in ("equal validation loss (decides)", "equal FID"):
        for panel in found:
            decides = what != "equal FID"
            for place, ratios in enumerate(panel.loss if decides else panel.fid):
                for k, (reference, ratio) in enumerate(zip(panel.references, ratios, strict=True)):
                    estimate = ratio.estimate
                    if estimate is None:
                        continue
                    name = f"{reference} over {panel.route}, {panel.tokens} tokens"
                    low, high = estimate.bounds or (None, None)
                    tests = (panel.loss[place][k].p_value, panel.found.p_values[place]) if decides else (None, None)
                    shown = (estimate.mean, low, high, estimate.n, ratio_in_words(ratio))
                    lines.append((name, name, what, panel.macs[place], *shown, *tests))
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
