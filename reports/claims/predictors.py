"""Does a cheap measurement, or a smaller network, put places of a route in the order that full trainings do?

docs/methods/choosing-a-place.md has the definitions, and how often the answer is wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tread_bench.core.numbers.ranks import FEWEST, rank_correlation
from tread_bench.core.numbers.statistics import LEVEL, MeanInterval
from tread_bench.core.stored.records import Evaluation, Record, paired_seed
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row, by_key

Figure = Literal["validation_loss", "fid"]
FIGURES: tuple[Figure, ...] = ("validation_loss", "fid")  # the first decides
ByGroup = NDArray[np.float64]  # (2, P): mean over each group of seeds, by place; NaN where one is not known
Correlations = Mapping[Figure, MeanInterval | None]


class Predictor(NamedTuple):
    """What is expected to be lower where a place is better, and how well it agrees with trainings of other seeds.

    `costs` counts dense trainings: what it takes to have it of all places. A correlation is None where a figure is not
    known, or equal at all places. `beyond_blocks` is that with the loss among places that bypass equally many blocks:
    the partial one, given that number, which costs nothing to know; None where it has no order among them.
    """

    name: str
    costs: float
    correlations: Correlations
    beyond_blocks: MeanInterval | None

    @property
    def ranks_places(self) -> bool:
        """Return whether it agrees with the order of the final losses beyond chance."""
        return _is_above_0(self.correlations["validation_loss"])

    @property
    def ranks_in_reverse(self) -> bool:
        """Return whether it agrees with the opposite order beyond chance, which nobody expected."""
        found = self.correlations["validation_loss"]
        return found is not None and found.is_below(0)

    @property
    def is_more_than_a_number_of_blocks(self) -> bool:
        """Return whether it also agrees with that order among places that bypass equally many blocks.

        This is asked of predictors that rank places alone, so it needs no part of the level.
        """
        return self.ranks_places and _is_above_0(self.beyond_blocks)


def _is_above_0(found: MeanInterval | None) -> bool:
    return found is not None and found.is_above(0)


class Placements(NamedTuple):
    """The places that one architecture was trained with, and what predicts their order.

    `ceiling` are the full trainings of the other seeds, which a cheap measurement can hardly be better than. `left_out`
    are the places that have not ended with all of the seeds.
    """

    architecture: str
    rows: Sequence[Row]
    seeds: int
    ceiling: Predictor
    predictors: list[Predictor]
    left_out: Sequence[str]

    @property
    def places(self) -> int:
        return len(self.rows)


def placements(rows: Sequence[Row]) -> list[Placements]:
    """Return every architecture that was trained with `FEWEST` places or more, with two seeds or more."""
    studies = [study for members in by_key(rows, _architecture).values() if (study := _study(members))]

    # What may predict the order of each, and the level that all of them share.
    tried = [[*_measured(study), *_in_smaller_networks(study, studies)] for study in studies]
    confidence = 1 - LEVEL / max(1, sum(map(len, tried)))
    found = []
    for study, candidates in zip(studies, tried, strict=True):
        outcomes = {figure: study.outcome(figure) for figure in FIGURES}
        loss = outcomes["validation_loss"]
        predictors = []
        for name, costs, predicted in candidates:
            agreed = {figure: _correlation(predicted[figure], outcomes[figure], confidence) for figure in FIGURES}
            beyond = _correlation(predicted["validation_loss"], loss, confidence, given=study.blocks_bypassed)
            predictors.append(Predictor(name, costs, agreed, beyond))
        ceiling = {figure: _correlation(outcomes[figure], outcomes[figure]) for figure in FIGURES}
        costs = study.macs(study.rows, _last) / study.dense_macs
        full = Predictor("full trainings", costs, ceiling, _correlation(loss, loss, given=study.blocks_bypassed))
        found.append(Placements(study.name, study.rows, len(study.seeds), full, predictors, study.left_out))
    return found


def _correlation(
    predicted: ByGroup, outcome: ByGroup, confidence: float = 1 - LEVEL, given: Sequence[int] | None = None
) -> MeanInterval | None:
    """What one group of seeds predicts against the outcome of the other, both ways."""
    if not np.isfinite([predicted, outcome]).all():
        return None
    return rank_correlation([(predicted[0], outcome[1]), (predicted[1], outcome[0])], confidence, given)


@dataclass(frozen=True)
class _Study:
    """An architecture with its places, in the order of `rows`."""

    name: str
    rows: Sequence[Row]
    seeds: Sequence[int]  # paired ones, which all rows have
    dense: Row  # the longest dense training
    short: Row  # the shortest
    left_out: Sequence[str]  # labels of other places, which have not ended with all of these seeds

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first and the last block of each route."""
        return [row.spans[0] for row in self.rows]

    @property
    def places(self) -> list[tuple[float, float]]:
        """Where each route begins and ends, as shares of the depth."""
        rows = zip(self.rows, self.spans, strict=True)
        return [(first / row.blocks, (last + 1) / row.blocks) for row, (first, last) in rows]

    @property
    def blocks_bypassed(self) -> list[int]:
        return [last + 1 - first for first, last in self.spans]

    def outcome(self, figure: Figure) -> ByGroup:
        """The figure at the end of each training."""
        return self.of_trainings(lambda record: _last(record).figure(figure))

    def of_trainings(self, figure: Callable[[Record], float | None]) -> ByGroup:
        """What each place's own trainings say."""
        return _by_group([[figure(_cell(row, seed)) for row in self.rows] for seed in self.seeds])

    def of_short(self, figure: Callable[[Record, int, int], float | None]) -> ByGroup:
        """What the short dense training says of each place, by its first and its last block."""
        return _by_group([[figure(_cell(self.short, seed), *span) for span in self.spans] for seed in self.seeds])

    @property
    def kind(self) -> tuple[str, ...]:
        """What a smaller network shares with a larger one."""
        group = self.dense.group
        return self.dense.first.family, group.data, group.objective, group.start

    @property
    def dense_macs_of_an_image(self) -> float:
        return self.dense.cost("dense_forward_macs") or np.inf

    @property
    def dense_macs(self) -> float:
        """Of a whole dense training."""
        return self.macs([self.dense], _last)

    def macs(self, rows: Sequence[Row], until: Callable[[Record], Evaluation]) -> float:
        """Training MACs of rows up to an evaluation, with one seed."""
        of_seeds = [sum(until(_cell(row, seed)).training_macs or np.nan for row in rows) for seed in self.seeds]
        return float(np.mean(of_seeds))


def _architecture(row: Row) -> tuple[str, ...]:
    return row.first.backbone, row.group.data, row.group.objective, row.group.start


def _study(rows: Sequence[Row]) -> _Study | None:
    """The places of one architecture; None with too few of them, too few seeds, or without a dense training."""
    # Rows that differ in their place alone.
    placed = [row for row in rows if len(row.spans) == 1 and _is_plain(row) and requested.is_routing_alone(row.first)]
    routed = max(by_key(placed, _but_for_its_place).values(), key=len, default=[])
    dense = sorted((row for row in rows if row.is_dense and _is_plain(row)), key=_length)
    if not dense or not routed:
        return None

    # Those that have ended with every seed that most of them have.
    ended = Counter(chain.from_iterable(map(_seeds, routed)))
    seeds = sorted(seed for seed, count in ended.items() if 2 * count > len(routed))
    left_out = [row.short_label for row in routed if not _seeds(row).issuperset(seeds)]
    routed = [row for row in routed if _seeds(row).issuperset(seeds)]
    is_enough = len(routed) >= FEWEST and len(seeds) >= 2
    if not is_enough or not all(_seeds(row).issuperset(seeds) for row in (dense[0], dense[-1])):
        return None
    return _Study(rows[0].architecture or rows[0].first.backbone, routed, seeds, dense[-1], dense[0], left_out)


def _but_for_its_place(row: Row) -> str:
    """What is requested of a row, but the blocks of its route and what follows from them: lengths and a tuned rate."""
    left_out = {"training": {"iterations"}, "metrics": {"at"}}
    if row.tuning:
        left_out["training"].add("learning_rate")
    config = {key: value for key, value in row.first.config.items() if key != "routes"}
    for part, keys in left_out.items():
        config[part] = {key: value for key, value in config.get(part, {}).items() if key not in keys}
    return json.dumps([row.first.method, row.first.rate, row.first.selector, config], sort_keys=True)


def _is_plain(row: Row) -> bool:
    first = row.first
    return not (requested.scheduled(first) or requested.is_evaluated_only(first) or requested.is_guided(first))


def _length(row: Row) -> int:
    return requested.iterations(row.first)


def _seeds(row: Row) -> set[int]:
    """Paired seeds of the trainings that were evaluated at their end."""
    return {paired_seed(r) for r in row.done if r.last and r.last.iteration == requested.iterations(r)}


def _cell(row: Row, seed: int) -> Record:
    return next(record for record in row.done if paired_seed(record) == seed)


def _last(record: Record) -> Evaluation:
    assert record.last is not None, "a cell that is done and trained was evaluated at its end"
    return record.last


def _first(record: Record) -> Evaluation:
    return min(record.evaluations, key=lambda evaluation: evaluation.iteration)


def _by_group(values: Sequence[Sequence[float | None]]) -> ByGroup:
    """Means over every second seed and over the others, from the values of each seed; None is NaN."""
    of_seeds = np.array(values, dtype=np.float64)
    return np.stack([of_seeds[0::2].mean(axis=0), of_seeds[1::2].mean(axis=0)])


_Candidate = tuple[str, float, Mapping[Figure, ByGroup]]  # its name, what it costs, and what it predicts each figure by


def _measured(study: _Study) -> Iterator[_Candidate]:
    """What is known without a full training."""
    of_one = study.macs([study.short], _last) / study.dense_macs
    of_short = {
        "blocks bypassed": (0.0, _by_group([study.blocks_bypassed] * len(study.seeds))),
        "layer similarity": (of_one, study.of_short(_dissimilarity)),
        "gradient in the route": (of_one, study.of_short(_share_of_gradient)),
    }
    for name, (costs, values) in of_short.items():
        yield name, costs, dict.fromkeys(FIGURES, values)
    if all(_first(record) is not record.last for row in study.rows for record in row.done):
        early = study.of_trainings(lambda record: _first(record).validation_loss)
        costs = study.macs(study.rows, _first) / study.dense_macs
        yield "first validation loss", costs, dict.fromkeys(FIGURES, early)


def _dissimilarity(record: Record, first: int, last: int) -> float | None:
    """1 - the cosine similarity of what the first and the last bypassed block put out."""
    return 1 - record.similarity.matrix[first][last] if record.similarity else None


def _share_of_gradient(record: Record, first: int, last: int) -> float | None:
    """The share of all blocks' gradient norms that the bypassed blocks have."""
    if record.gradient_norms is None:
        return None
    norms = record.gradient_norms.dense
    return sum(norms[first : last + 1]) / sum(norms)


def _in_smaller_networks(study: _Study, studies: Sequence[_Study]) -> Iterator[_Candidate]:
    """The same places, as shares of the depth, in networks that cost less; not known where one lacks some of them."""
    for smaller in studies:
        is_smaller = smaller.kind == study.kind and smaller.dense_macs_of_an_image < study.dense_macs_of_an_image
        if not is_smaller or len(set(smaller.places) & set(study.places)) < FEWEST:
            continue
        name, costs = f"the same in {smaller.name}", smaller.macs(smaller.rows, _last) / study.dense_macs
        if set(smaller.places) == set(study.places) and smaller.seeds == study.seeds:
            order = [smaller.places.index(place) for place in study.places]
            yield name, costs, {figure: smaller.outcome(figure)[:, order] for figure in FIGURES}
        else:
            yield name, costs, dict.fromkeys(FIGURES, np.full((2, len(study.places)), np.nan))
