"""All seeds of one configuration, with their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeVar

from tread_bench.core.config.choices import PLAINLY_DENSE
from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import MeanInterval, mean_interval, paired_ratio
from tread_bench.core.stored.records import (
    Record,
    TimingFigures,
    Tuning,
)
from tread_bench.reports.rows import requested

Item = TypeVar("Item")
Key = TypeVar("Key")


def by_key(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items of each key; keys and items stay in their order."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


class Group(NamedTuple):
    """What rows must share to be ranked together; of a row with a budget, what the row that it names has."""

    backbone: str
    data: str
    objective: str  # with what its validation loss depends on: losses of two objectives are different quantities
    start: str  # whose weights training starts from: no figure has what those have cost; "" where they are drawn
    protocol: str
    iteration: int


@dataclass(frozen=True, kw_only=True)
class Row:
    """All seeds of one configuration.

    `scores` holds metric -> paired seed -> finite value at the group's iteration: the row's last one, but for a row
    with a budget the last one of its reference. `short_label` is what it is called beside others of its architecture.
    It is compared with the row `reference_name`, which is called `reference_label`; `is_reference` says whether a row,
    itself included, is compared with it. `architecture` is "" where no other stands beside it. `dense_step_ms` is the
    median dense step of the whole run. In a smoke run no row has the lowest FID, nor published figures beside it.
    """

    group: Group
    name: str
    records: tuple[Record, ...]
    architecture: str = ""
    short_label: str = ""
    reference_name: str = ""
    reference_label: str = PLAINLY_DENSE.name
    is_reference: bool = False
    scores: dict[str, dict[int, float]] = field(default_factory=dict)
    dense_step_ms: float | None = None
    is_lowest_fid: bool = False  # of the rows of its group that have as many finished seeds as any
    is_smoke: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """What names it in frames: suite, row, protocol."""
        return self.first.suite, self.name, self.group.protocol

    @property
    def first(self) -> Record:
        return self.records[0]

    @property
    def done(self) -> tuple[Record, ...]:
        return tuple(r for r in self.records if r.status == "done")

    @property
    def not_done(self) -> tuple[Record, ...]:
        return tuple(r for r in self.records if r.status != "done")

    @property
    def is_dense(self) -> bool:
        """Trained without routes, auxiliary loss or schedule, and no control: the reference of the others."""
        return requested.is_plainly_dense(self.first)

    @property
    def is_evaluated_by_teacher(self) -> bool:
        """Trained towards features of the same network that measures its FID, so its FID is not ranked."""
        return any(requested.is_evaluated_by_teacher(record) for record in self.done)

    @property
    def tuning(self) -> Tuning | None:
        """How its learning rate was chosen; None where the suite gives it."""
        return self.first.tuning

    @property
    def is_untuned(self) -> bool:
        """Whether the best candidate lies at the edge of those that were tried, so that a better one may lie beyond."""
        best = self.tuning.best if self.tuning else None
        return best is not None and not best.is_bracketed

    @property
    def learning_rate(self) -> str:
        """Its learning rate and how it was chosen; "" where the suite gives it."""
        if self.tuning is None or self.tuning.best is None:
            return ""
        count = len(self.tuning.candidates)
        how = f"at the edge of {count} candidates: untuned" if self.is_untuned else f"best of {count}"
        return f"learning rate {self.tuning.best.value:g}, {how}"

    @property
    def blocks(self) -> int:
        """Blocks of the backbone; 0 where no cell got so far."""
        return self.first.num_blocks or 0

    @property
    def spans(self) -> list[tuple[int, int]]:
        """(first, last) block of each route."""
        return [(int(route.start), int(route.end)) for route in parse_routes(self.first.routes)]

    @property
    def has_dense_part(self) -> bool:
        """Whether a schedule makes steps of two kinds of its training, of which the routed one is timed."""
        return bool(self.spans and requested.scheduled(self.first))

    @property
    def label(self) -> str:
        """What the row is called in the suite, the plan and results.csv."""
        return self.name

    @property
    def stem(self) -> str:
        """Its name without the settings that a matrix added: "tread" of "tread backbone=DiT"."""
        return self.name.partition(" ")[0] or self.name

    @property
    def unsaid(self) -> str:
        """Method and routes, as far as its name does not say them: "mean_fill 1:2@0.5"."""
        parts = []
        method = requested.method(self.first)
        is_named = method.replace("_", "-") in self.name.replace("_", "-")
        if self.spans and not is_named and not requested.is_plain_routing(self.first):
            parts.append(method)
        blocks = [route.partition("@")[0] for route in self.first.routes.split(",")]
        if not all(each in self.name for each in blocks):
            parts.append(self.first.routes)
        return " ".join(parts)

    @property
    def fid(self) -> MeanInterval | None:
        return self.metric("fid")

    def metric(self, name: str) -> MeanInterval | None:
        """Mean over seeds and its interval."""
        return self._means.get(name)

    @cached_property
    def _means(self) -> dict[str, MeanInterval]:
        return {name: mean_interval(list(values.values())) for name, values in self.scores.items() if values}

    @cached_property
    def speedup(self) -> tuple[float, float, float] | None:
        """Dense over routed step time: ratio and 95 % bootstrap interval over all timed pairs."""
        timings = self.timings
        if len(timings) == 1:
            return timings[0].speedup, timings[0].speedup_low, timings[0].speedup_high
        dense_ms = list(chain.from_iterable(timing.reference_step_times_ms for timing in timings))
        routed_ms = list(chain.from_iterable(timing.step_times_ms for timing in timings))
        return paired_ratio(dense_ms, routed_ms) if timings else None

    @cached_property
    def timings(self) -> list[TimingFigures]:
        """The distinct measurements: seeds that share one measurement count once."""
        found: list[TimingFigures] = []
        for record in self.done:
            if record.timing and record.timing not in found:
                found.append(record.timing)
        return found

    @property
    def step_ms(self) -> float | None:
        """The run's dense step over the row's speed-up."""
        if self.dense_step_ms is None or self.speedup is None:
            return None
        return self.dense_step_ms / (1.0 if self.is_dense else self.speedup[0])

    @property
    def images_per_s(self) -> float | None:
        """The run's dense rate times the row's speed-up."""
        return self.timings[0].batch / self.step_ms * 1e3 if self.step_ms else None

    def cost(self, name: str) -> float | None:
        """Return a figure of `CostFigures`, which all seeds share."""
        return next((getattr(r.cost, name) for r in self.records if r.cost), None)

    @property
    def ideal_speedup(self) -> float | None:
        """Forward MACs of the dense network that it was timed in turn with, over its own."""
        return next((r.ideal_speedup for r in (*self.done, *self.records) if r.cost), None)

    @property
    def timed_with(self) -> str:
        """The backbone whose dense steps its own were timed in turn with."""
        return next((one.reference_backbone for one in self.timings), "") or self.first.backbone

    @property
    def extra_params(self) -> float:
        """Parameters of the method and of its auxiliary losses, which the backbone does not have."""
        return sum(self.cost(name) or 0 for name in ("method_params", "auxiliary_params"))

    @property
    def sampling_macs(self) -> float | None:
        """Of one generated image, over all steps and branches."""
        return next((r.sampling_macs for r in self.done if r.sampling_macs), None)

    def timing(self, name: str) -> float | None:
        """Mean over the measurements of a figure of `TimingFigures`."""
        values = [getattr(timing, name) for timing in self.timings]
        measured = [value for value in values if value is not None]
        return mean_interval(measured).mean if measured else None
