"""Which size of network is best for a given compute: isoFLOP curves of an onset study, from three widths up.

As Hoffmann et al. (2022), approach 2: networks of several sizes trained to the same MACs, and a parabola of the loss
over the logarithm of their parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tread_bench.core.numbers.statistics import MeanInterval, mean_interval
from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.records import Record
from tread_bench.reports.claims.onset import Ends, arms_of, ends_of, reference_name

FEWEST_SIZES = 3  # that have a parabola


class Size(NamedTuple):
    """The end of trainings of one size."""

    parameters: int
    losses: Mapping[int, float]  # by paired seed

    @property
    def loss(self) -> MeanInterval:
        return mean_interval(list(self.losses.values()))


class IsoFlop(NamedTuple):
    """One arm at one budget: its loss by size, smallest first, and the best size by the parabola of each seed.

    `best` is None where the parabola of a seed has no minimum between the smallest and the largest size.
    """

    tokens: int
    length: int  # place of the budget among those of the arm, the smallest 0
    macs: float  # mean over sizes and seeds
    arm: str
    sizes: list[Size]
    best: MeanInterval | None  # parameters; geometric mean over seeds, with its 95 % interval
    is_dense: bool  # as deep as what is routed


def isoflops(records: Sequence[Record], plan: RunPlan) -> list[IsoFlop]:
    """Return the curves of a run that stated a hypothesis, by tokens, budget and arm; none without three sizes."""
    if plan.registered is None:
        return []

    # The ends of each arm's trainings, by number of tokens and size.
    ends: dict[tuple[int, str, bool], list[tuple[int, Ends]]] = {}
    arms = arms_of(records)
    routed_depth = {(tokens, width): depth for tokens, width, depth, route in arms if route}
    for (tokens, width, depth, route), members in arms.items():
        own = routed_depth.get((tokens, width))
        is_dense = not route and depth == own
        name = route or reference_name(depth, own)
        parameters = members[0].cost.params if members[0].cost else 0
        ends.setdefault((tokens, name, is_dense), []).append((parameters, ends_of(members, "loss")))

    # A curve for each budget that all sizes of an arm were trained to.
    found = []
    for (tokens, name, is_dense), of_sizes in ends.items():
        sizes = sorted(of_sizes, key=lambda size: size[0])
        lengths = {len(points) for _, by_seed in sizes for points in by_seed.values()}
        if len(sizes) < FEWEST_SIZES or len(lengths) != 1:
            continue
        for place in range(lengths.pop()):
            macs = [points[place][0] for _, by_seed in sizes for points in by_seed.values()]
            curve = [Size(n, {seed: points[place][1] for seed, points in by_seed.items()}) for n, by_seed in sizes]
            found.append(IsoFlop(tokens, place, float(np.mean(macs)), name, curve, _best(curve), is_dense))
    return sorted(found, key=lambda one: (one.tokens, one.length))


def _best(sizes: Sequence[Size]) -> MeanInterval | None:
    """The parameters at which the parabola through each seed's losses is lowest."""
    seeds = set.intersection(*(set(size.losses) for size in sizes))
    logs = [math.log(size.parameters) for size in sizes]
    lowest = []
    for seed in sorted(seeds):
        bend, slope, _ = np.polyfit(logs, [size.losses[seed] for size in sizes], 2)
        at = -slope / (2 * bend) if bend > 0 else math.nan
        if not logs[0] <= at <= logs[-1]:
            return None
        lowest.append(float(at))
    if not lowest:
        return None
    mean = mean_interval(lowest)
    low, high = (None, None) if mean.bounds is None else map(math.exp, mean.bounds)
    return MeanInterval(math.exp(mean.mean), low, high, mean.n)
