"""All seeds of one configuration as a row, with their figures; and what rows are called beside each other."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby
from typing import NamedTuple, TypeVar

from tread_bench.core.config.choices import PLAINLY_DENSE
from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.numbers.statistics import MeanInterval, Seeds, mean_interval, paired_ratio
from tread_bench.core.stored.records import Record, TimingFigures, Tuning
from tread_bench.reports import requested
from tread_bench.reports.differences import MACS, Compared, RowKey, Sides

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


@dataclass(kw_only=True, eq=False)
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
    scores: dict[str, Seeds] = field(default_factory=dict)
    differences: Mapping[tuple[str, str], Compared] = field(default_factory=dict)
    dense_step_ms: float | None = None
    is_lowest_fid: bool = False  # of the rows of its group that have as many finished seeds as any
    is_smoke: bool = False

    @property
    def key(self) -> RowKey:
        """What names it in frames: suite, row, protocol."""
        return self.first.suite, self.name, self.group.protocol

    @property
    def first(self) -> Record:
        return self.records[0]

    @property
    def done(self) -> tuple[Record, ...]:
        return tuple(r for r in self.records if r.status == "done")

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
    def full_label(self) -> str:
        """What it is called beside others of any architecture."""
        return f"{self.architecture} {self.short_label}".lstrip()

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

    def compared(self, at: str, metric: str = "fid") -> Compared | None:
        """Return it beside its reference; None where it was not compared so."""
        return self.differences.get((at, metric))

    def difference(self, at: str, metric: str = "fid") -> MeanInterval | None:
        """Return the row minus its reference."""
        found = self.compared(at, metric)
        return found.estimate if found else None

    def sides(self, at: str) -> Sequence[Sides]:
        """Return FIDs of row and reference by seed: as measured, then at the ends of the speed-up's interval.

        Empty where it was not compared so.
        """
        found = self.compared(at)
        return found.sides if found else ()

    @property
    def differs_at_equal_macs(self) -> bool:
        """Whether equal MACs are something else than equal iterations, of trainings that cost the same as they are."""
        found = self.compared(MACS)
        return found is not None and (not found.evaluated or bool(requested.macs_of(self.first)))

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


# What rows and their architectures are called beside others


def name_rows(rows: Sequence[Row]) -> None:
    """Give the rows what each is called beside others of its architecture: its name in the suite.

    Where several architectures stand side by side it is the name without the settings of a matrix, as far as these only
    name the architecture.
    """
    for members in side_by_side(rows):
        backbones = short_names(row.group.backbone for row in members)
        objectives = short_names(row.group.objective for row in members)
        times = Counter((_unit(row), row.stem) for row in members)
        for row in members:
            parts = []
            if len(backbones) > 1:
                parts.append(backbones[row.group.backbone])
            if len(objectives) > 1:
                parts.append(objectives[row.group.objective])
            row.architecture = " ".join(parts)
            row.short_label = row.stem if parts and times[_unit(row), row.stem] == 1 else row.name


def side_by_side(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows by data, start, metric protocol and iteration, whatever their architecture and objective; order
    is kept, except that rows with no other of their architecture beside them come last.

    A group without a finished cell has neither protocol nor iteration and stands with the first of its data. Rows that
    were only timed stand side by side, by number of tokens: each was timed in turn with its own dense twin.
    """
    timed = [row for row in rows if requested.is_timed_only(row.first)]
    if timed:
        others = side_by_side([row for row in rows if not requested.is_timed_only(row.first)])
        return [*others, sorted(timed, key=lambda row: (_natural(row), row.cost("dense_tokens") or 0))]
    sets: dict[tuple[tuple[str, str], str, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: not row.group.iteration):
        key = ((row.group.data, row.group.start), row.group.protocol, row.group.iteration)
        alike = (other for other in sets if other[0] == key[0])
        sets.setdefault(key if row.group.iteration else next(alike, key), []).append(row)
    found = [sorted(members, key=_natural) for members in sets.values()]
    return sorted(found, key=lambda members: len({_unit(row) for row in members}) == len(members))


def told_apart(groups: Sequence[Group]) -> list[str]:
    """Return what each group is called beside the others: "" alone, else by as few facts as tell all of them apart."""
    backbones = short_names(group.backbone for group in groups)
    objectives = short_names(group.objective for group in groups)
    data = short_names(_data_text(group.data) for group in groups)
    facts = []
    for group in groups:
        start = f"from {group.start}" if group.start else "from drawn weights"
        length = f"iteration {group.iteration:,}" if group.iteration else "without an evaluation"
        what = backbones[group.backbone], objectives[group.objective], data[_data_text(group.data)]
        facts.append((*what, start, length, f"protocol {group.protocol}"))
    names = [""] * len(groups)
    for of_each in zip(*facts, strict=True):
        if len({*names}) < len(groups) and len({*of_each}) > 1:
            names = [", ".join(filter(None, both)) for both in zip(names, of_each, strict=True)]
    return names


def _data_text(data: str) -> str:
    """A data source's settings as those of an architecture are written: "glyphs (image_size 32)"."""
    settings = json.loads(data)
    name = settings.pop("name", "")
    each = []
    for key, value in settings.items():
        shown = " ".join(map(str, value)) if isinstance(value, list) else f"{value}".replace(", ", " ")
        each.append(f"{key} {shown}")
    return f"{name} ({', '.join(each)})" if each else name


def chosen(rows: Sequence[Row], most: int) -> tuple[list[Row], str]:
    """Return dense rows and those of lowest FID, in their order, and what a caption says of the others."""
    ranked = sorted(rows, key=lambda row: (not row.is_dense, row.fid.mean if row.fid else math.inf))[:most]
    left_out = f" Drawn: {len(ranked)} of {len(rows)} rows; the numbers have all." if len(ranked) < len(rows) else ""
    return [row for row in rows if row in ranked], left_out


def by_architecture(rows: Iterable[Row]) -> list[list[Row]]:
    """Consecutive rows of one architecture and objective together: what has a dense row of its own."""
    return [list(members) for _, members in groupby(rows, _unit)]


def name_of(row: Row) -> str:
    """Return what its architecture is called, also where it is the only one."""
    return row.architecture or row.group.backbone


def _unit(row: Row) -> tuple[str, str]:
    return row.group.backbone, row.group.objective


def _natural(row: Row) -> list[tuple[int, str]]:
    """Numbers in names by their size: a depth of 6 comes before one of 12."""
    parts = re.split(r"(\d+)", " ".join(_unit(row)))
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def short_names(backbones: Iterable[str]) -> dict[str, str]:
    """Without the sizes that all of a name share: "DiT", or "DiT (depth 12)" beside "DiT (depth 6)"."""
    # Family or published name, and the settings beside it: of "DiT (depth 12, attention linear)" two.
    sizes_by_name: dict[str, dict[str, list[str]]] = {}
    for backbone in backbones:
        name, _, text = backbone.partition(" (")
        sizes_by_name.setdefault(name, {})[backbone] = text.removesuffix(")").split(", ") if text else []

    # Sizes that others of the name do not have.
    short = {}
    for name, sizes_by_backbone in sizes_by_name.items():
        shared = set.intersection(*map(set, sizes_by_backbone.values()))
        for backbone, sizes in sizes_by_backbone.items():
            own = ", ".join(size for size in sizes if size not in shared)
            short[backbone] = f"{name} ({own})" if own else name
    return short
