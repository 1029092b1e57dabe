"""The figures that a history follows: their values in a record, and which of these are comparable."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from pydantic import JsonValue

from tread_bench.core.describe import metrics
from tread_bench.core.stored.conditions import Conditions, decisive_to_the_bit
from tread_bench.core.stored.records import Record
from tread_bench.regression.baseline.baseline import MARGIN, QUALITY
from tread_bench.regression.baseline.compare import MEMORY_MIB, MEMORY_SHARE
from tread_bench.regression.baseline.speed_rule import LIMIT
from tread_bench.regression.history.configuration import of_quality, of_step


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure; a step below `share` of the level plus `absolute` does not matter. An exact figure has no noise."""

    name: str
    title: str
    unit: str
    about: str
    worse: int  # 1: where it rises, -1: where it falls, 0: neither
    share: float = 0.0
    absolute: float = 0.0
    is_exact: bool = False

    @property
    def label(self) -> str:
        """Title and unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def relevant(self, level: float) -> float:
        """Return the smallest step that matters."""
        return self.share * abs(level) + self.absolute


_LONGEST_NAME = 64  # of a figure of an added metric
_PROBES = "Median training step, in units of a probe (a fixed amount of work that was timed just before)"
METRICS = {
    metric.name: metric
    for metric in (
        Metric("step_time_probes", "Step time", "probes", _PROBES, 1, 1 - LIMIT),
        Metric("step_time_ms", "Step time", "ms", "Median training step, for runs without a probe", 1, 1 - LIMIT),
        Metric("speedup", "Speed-up over dense", "", "Median of dense over routed step time, by pairs", -1, 1 - LIMIT),
        Metric("peak_memory_mib", "Peak memory", "MiB", "Peak memory of a training step", 1, MEMORY_SHARE, MEMORY_MIB),
        Metric("validation_loss", "Validation loss", "", "At the last iteration, mean over seeds", 1, MARGIN),
        Metric("fid", "FID", "", "At the last iteration, mean over seeds, under one metric protocol", 1, MARGIN),
        Metric("params", "Parameters", "", "Counted", 0, is_exact=True),
        Metric("train_step_macs", "MACs of a training step", "", "Counted, per image", 0, is_exact=True),
    )
}


def followed(names: Iterable[str]) -> dict[str, Metric]:
    """`METRICS`, and behind them, by name, the figures among `names` that are of metrics which suites added."""
    known = metrics.known_figures()
    added = (known.get(name) or metrics.Figure.unknown(name) for name in sorted({*names} - METRICS.keys()))
    return METRICS | {figure.name: _added(figure) for figure in added}


def _added(figure: metrics.Figure) -> Metric:
    about = f"{figure.definition[0].upper()}{figure.definition[1:].rstrip('.')}; at the last iteration, mean over seeds"
    worse = {True: 1, False: -1, None: 0}[figure.lower_is_better]
    return Metric(figure.name, figure.title, figure.unit, about, worse, MARGIN)


class Figure(NamedTuple):
    """A value of a metric; only values of equal `context` are comparable."""

    metric: str
    value: float
    context: dict[str, JsonValue]

    @property
    def key(self) -> tuple[str, str]:
        """Metric and context, as a key."""
        return self.metric, json.dumps(self.context, sort_keys=True, default=str)


def figures(seeds: Sequence[Record]) -> list[Figure]:
    """Return the figures of one row in one run: each the mean over its requested and finished seeds made under one
    context.
    """
    found: dict[tuple[str, str], dict[int, Figure]] = {}
    for record in seeds:
        for figure in _figures(record):
            if math.isfinite(figure.value):
                found.setdefault(figure.key, {})[record.seed] = figure
    return [_mean(by_seed) for by_seed in found.values()]


def _mean(by_seed: dict[int, Figure]) -> Figure:
    """Quality differs by seed, so means over different seeds are not comparable; seeds share all else."""
    metric, _, context = next(iter(by_seed.values()))
    is_quality = metric in QUALITY or metric not in METRICS
    seeds: dict[str, JsonValue] = {"seeds": [*sorted(by_seed)]} if is_quality else {}
    return Figure(metric, fmean(figure.value for figure in by_seed.values()), context | seeds)


def _figures(record: Record) -> Iterator[Figure]:
    if record.cost:
        yield Figure("params", record.cost.params, of_step(record.config))
        yield Figure("train_step_macs", record.cost.train_step_macs, of_step(record.config))
    yield from _timed(record)
    yield from _judged(record)


def _timed(record: Record) -> Iterator[Figure]:
    timing = record.timing
    if timing is None:
        return
    where = _conditions(record.conditions.timed_under or record.conditions)
    context = where | of_step(record.config) | {"batch": timing.batch}
    if timing.probe_ms:
        yield Figure("step_time_probes", timing.step_time_ms / timing.probe_ms, context)
    else:
        yield Figure("step_time_ms", timing.step_time_ms, context)
    if record.reference not in ("", record.cell):
        yield Figure("speedup", timing.speedup, context)
    if timing.peak_memory_mib is not None:
        yield Figure("peak_memory_mib", timing.peak_memory_mib, context | {"memory": timing.memory_kind})


def _judged(record: Record) -> Iterator[Figure]:
    last = record.last
    if last is None:
        return
    earlier: dict[str, JsonValue] = {"begun_under": [_conditions(one) for one in record.conditions.begun_under]}
    requested = of_quality(record.config) | {"iteration": last.iteration}
    context = _conditions(record.conditions) | earlier | requested
    yield Figure("validation_loss", last.validation_loss, context)
    if last.fid is not None:
        yield Figure("fid", last.fid, context | {"protocol": last.protocol})
    for name, value in last.figures.items():
        if _can_be_drawn(name):
            yield Figure(name, value, context | {"protocol": last.protocol})


def _can_be_drawn(name: str) -> bool:
    """Whether a figure can have a series and a file of its name: a record may be anybody's."""
    return name.isidentifier() and len(name) <= _LONGEST_NAME and name not in METRICS


def _conditions(conditions: Conditions) -> dict[str, JsonValue]:
    """What changes figures, except the version of this program, which is the axis of a history."""
    return {key: value for key, value in decisive_to_the_bit(conditions).items() if key != "tread-bench"}
