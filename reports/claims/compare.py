"""Several runs beside each other: which of their rows are the same, what differs, and what may be concluded of it.

The same row is one of the same name that is trained in the same way. Its FIDs in two runs are compared where they are
the same quantity: same data, objective, metric protocol and iteration. Rows of several runs are ranked together where
their training is the same too, apart from what the suites themselves vary.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from pathlib import PurePath
from typing import Literal, NamedTuple

import numpy as np
from pydantic import JsonValue

from tread_bench.core.names import few
from tread_bench.core.numbers.statistics import (
    LEVEL,
    MeanInterval,
    against_best,
    holm,
    paired_difference,
    paired_p_value,
    welch_difference,
    welch_p_value,
)
from tread_bench.core.stored.conditions import decisive, is_same_figure
from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.records import DataFile, Record, paired_seed
from tread_bench.core.stored.redaction import own_name
from tread_bench.reports.claims.configuration import of_quality
from tread_bench.reports.rows.comparison import comparison
from tread_bench.reports.rows.requested import data
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.tables.tables import flat
from tread_bench.reports.text.numbers import names

_TREATMENT = ("backbone", "method", "routes", "selector", "schedule", "auxiliary", "evaluate")  # and guidance
_SHARED = ("data", "objective", "training")
_PROTOCOL = "metric protocol"
_FOLLOW = ("caution", "not_measured", "feature_device", "device_effect")  # beside a protocol's details, not part of it
_LONGEST = 60  # characters of a value in words
_NAMED = 3  # contents of files of one name, in words
_TIMED_ON = ("device", "device_name", "cpu_capability", "blas_kernels")

Change = Literal["identical", "lower", "higher", "no difference found", "too few seeds", "not compared"]
Differing = Mapping[str, tuple[str, str]]  # what differs between two rows -> its two values


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run to compare, under the name that the page gives it."""

    name: str
    plan: RunPlan
    records: Sequence[Record]

    @cached_property
    def rows(self) -> list[Row]:
        """Its rows with a finished cell, each beside the dense row of this run."""
        return [row for row in comparison(self.records) if row.done]

    @property
    def seeds(self) -> list[int]:
        """Of its finished cells."""
        return sorted({record.seed for row in self.rows for record in row.done})

    @property
    def cells(self) -> int:
        """How many have finished."""
        return sum(len(row.done) for row in self.rows)


class Member(NamedTuple):
    """A row and the run that it is of."""

    run: Run
    row: Row

    @property
    def fids(self) -> dict[int, float]:
        """Finite FIDs at the iteration and under the protocol of the row's group, by the seed itself."""
        found = self.row.scores.get("fid", {})
        return {one.seed: found[paired_seed(one)] for one in self.row.done if paired_seed(one) in found}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A row in one run beside the same row in an earlier one; `fid` is its FID minus that of the earlier.

    `p_value` is Holm-adjusted over all differences of the page.
    """

    of: Member
    to: Member
    differing: Differing
    fid: MeanInterval | None = None
    is_paired: bool = False
    is_identical: bool = False
    p_value: float | None = None

    @property
    def outcome(self) -> Change:
        """What may be concluded."""
        if self.fid is None:
            return "not compared"
        if self.is_identical:
            return "identical"
        if self.p_value is None:
            return "too few seeds"
        if self.p_value > LEVEL:
            return "no difference found"
        return "lower" if self.fid.mean < 0 else "higher"


Choice = Literal["better", "worse", "mixed", "no difference found", "identical", "too few seeds", "not compared"]


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """What the shared rows of two runs say of the later one, `of`.

    Args:
        lower: rows whose FID is significantly lower in it; of them and of `higher`, at most 5 % of pairs of runs that
            differ in their seeds alone have any.
        tested: rows whose FIDs were tested.
        seeds: the fewest that a tested row has in common, or in either run.
        data: on which.
    """

    of: str
    to: str
    choice: Choice
    lower: int
    higher: int
    tested: int
    seeds: int
    data: str


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Rows of one architecture whose FIDs are ranked together, lowest mean first.

    `best` are the places of those that may have the lowest. `apart` are pairs of runs that share no seed, so that their
    rows are not tested against each other here. `differing` is relative to the first ranking of the architecture.
    """

    members: list[Member]
    best: list[int]
    apart: list[tuple[str, str]]
    differing: Differing

    @property
    def runs(self) -> list[str]:
        return list(dict.fromkeys(member.run.name for member in self.members))


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The speed-up of a row over dense; `ratio` to that of the same row in an earlier run, where machines are equal."""

    of: Member
    machine: str
    ratio: tuple[float, float, float] | None  # with its 95 % interval over the pairs of both measurements


def same_rows(runs: Sequence[Run]) -> list[list[Member]]:
    """Rows that at least two runs have, each with its members in the order of the runs."""
    found = list(_by_treatment(runs).values())
    return [members for members in found if len({member.run.name for member in members}) > 1]


def rows_of_one(runs: Sequence[Run]) -> list[Member]:
    """Rows that no other run has."""
    found = _by_treatment(runs).values()
    return list(chain.from_iterable(m for m in found if len({member.run.name for member in m}) == 1))


def _by_treatment(runs: Sequence[Run]) -> dict[tuple[str, str], list[Member]]:
    members = (Member(run, row) for run in runs for row in run.rows)
    return by_key(members, lambda member: (member.row.name, _treatment(member.row.first)))


def _treatment(record: Record) -> str:
    """What distinguishes the rows of a study."""
    requested = _requested(record)
    own = {k: v for k, v in requested.items() if k.partition(".")[0] in _TREATMENT or k.startswith("sampling.guidance")}
    return json.dumps(own, sort_keys=True)


def _requested(record: Record) -> dict[str, JsonValue]:
    """What its figures depend on, with names of files as they are on disk: those of an export may have a number."""
    return {key: _own_names(value) for key, value in of_quality(record.config).items()}


def _own_names(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_own_names(part) for part in value]
    return own_name(value) if isinstance(value, str) else value


def differences(runs: Sequence[Run]) -> list[Difference]:
    """Return each row of a later run beside the same row of the first run that has it, tests Holm-adjusted."""
    # Every row with what is known of it alone.
    found = []
    for first, *others in same_rows(runs):
        found += [_difference(member, first) for member in others if member.run is not first.run]

    # The tests, over all rows and runs.
    tested = [place for place, one in enumerate(found) if one.p_value is not None and not one.is_identical]
    adjusted = dict(zip(tested, holm([found[place].p_value or 0.0 for place in tested]), strict=True))
    return [replace(one, p_value=adjusted.get(place)) for place, one in enumerate(found)]


def by_pair(found: Sequence[Difference]) -> dict[tuple[str, str], list[Difference]]:
    """Return the differences of each later run to each earlier one, by the names of the two."""
    return by_key(found, lambda one: (one.of.run.name, one.to.run.name))


def conclusion(of: str, to: str, found: Sequence[Difference]) -> Conclusion:
    """Return what the rows that two runs share say of them."""
    # How many rows have each outcome.
    count = Counter(one.outcome for one in found)
    lower, higher = count["lower"], count["higher"]
    tested = [one for one in found if one.p_value is not None]

    # The first that there is, in this order.
    choice: Choice = "not compared"
    if lower or higher:
        choice = "mixed" if lower and higher else "better" if lower else "worse"
    elif tested:
        choice = "no difference found"
    elif count["too few seeds"] or count["identical"]:
        choice = "too few seeds" if count["too few seeds"] else "identical"
    return Conclusion(
        of=of,
        to=to,
        choice=choice,
        lower=lower,
        higher=higher,
        tested=len(tested),
        seeds=min((one.fid.n for one in tested if one.fid), default=0),
        data=data(found[0].of.row.first),
    )


def _difference(of: Member, to: Member) -> Difference:
    """Paired over the seeds that both have, if these are several or all; else of independent seeds."""
    # What differs; of other data, or under another protocol, an FID is another quantity.
    differing = differing_in(of.row, to.row)
    a, b = of.fids, to.fids
    if not a or not b or of_another_quantity(differing):
        return Difference(of=of, to=to, differing=differing)

    # The difference with its test.
    shared = a.keys() & b.keys()
    is_paired = len(shared) > 1 or a.keys() == b.keys()
    difference, p_value = (paired_difference, paired_p_value) if is_paired else (welch_difference, welch_p_value)
    return Difference(
        of=of,
        to=to,
        differing=differing,
        fid=difference(a, b),
        is_paired=is_paired,
        is_identical=is_paired and all(is_same_figure("fid", a[seed], b[seed]) for seed in shared),
        p_value=p_value(a, b),
    )


def differing_in(a: Row, b: Row) -> dict[str, tuple[str, str]]:
    """Return what differs of that on which the figures of two rows depend, apart from what they are compared by."""
    # What was requested, and how it was measured.
    one, other = _fingerprint(a), _fingerprint(b)
    keys = [key for key in dict.fromkeys((*one, *other)) if one.get(key) != other.get(key)]
    if any(key.startswith(f"{_PROTOCOL}: ") for key in keys):
        keys = [key for key in keys if key != _PROTOCOL]  # its details say more
    found = {key: (_words(one.get(key)), _words(other.get(key))) for key in keys}

    # Files of one name, of which one row has read contents that the other has not.
    files, others = _files(a), _files(b)
    for name in sorted(files.keys() & others.keys()):
        alone = (_without_partner(files[name], others[name]), _without_partner(others[name], files[name]))
        if any(alone):
            found[f"contents of {name}"] = (_contents(alone[0] or files[name]), _contents(alone[1] or others[name]))
    return found


def of_another_quantity(differing: Differing) -> Differing:
    """Of what differs, that which makes two FIDs different quantities: all but how the networks were trained."""
    return {key: values for key, values in differing.items() if not key.startswith("training.")}


def _fingerprint(row: Row) -> dict[str, JsonValue]:
    record = row.done[0]
    shared = {key: value for key, value in _requested(record).items() if key.partition(".")[0] in _SHARED}
    details = record.last.protocol_details if record.last else {}
    measured = {f"{_PROTOCOL}: {key}": value for key, value in details.items() if key not in _FOLLOW}
    return shared | measured | {_PROTOCOL: row.group.protocol, "evaluated at iteration": row.group.iteration}


def _files(row: Row) -> dict[str, list[DataFile]]:
    """What its cells have read, by name: files of several folders may have the same one."""
    by_path = {path: file for record in row.done for path, file in record.data_files.items()}
    found: dict[str, list[DataFile]] = {}
    for path, file in by_path.items():
        found.setdefault(own_name(PurePath(path).name), []).append(file)
    return found


def _without_partner(files: Sequence[DataFile], others: Sequence[DataFile]) -> list[DataFile]:
    return [file for file in files if not any(_is_same_content(file, other) for other in others)]


def _contents(files: Sequence[DataFile]) -> str:
    return few(sorted({(file.sha256 or file.ends_sha256)[:12] for file in files}), _NAMED)


def _is_same_content(a: DataFile, b: DataFile) -> bool:
    known = {a.sha256, b.sha256} - {""}
    return (a.bytes, a.ends_sha256) == (b.bytes, b.ends_sha256) and len(known) < 2


def _words(value: JsonValue) -> str:
    text = flat(value) or "none"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def rankings(runs: Sequence[Run]) -> list[Ranking]:
    """Return the rows of all runs in groups that are ranked together; groups of one architecture follow each other."""
    # Rows that agree in all but what the suites vary.
    varied = set(chain.from_iterable(_varied(run) for run in runs))
    groups: dict[str, list[list[Member]]] = {}
    for run in runs:
        for row in run.rows:
            member = Member(run, row)
            if not member.fids or row.is_evaluated_by_teacher:
                continue
            alike = groups.setdefault(row.group.backbone, [])
            group = next((one for one in alike if not _apart(row, one[0].row, varied)), None)
            if group is None:
                alike.append(group := [])
            group.append(member)

    # Each ranked, beside the first of its architecture.
    found = []
    for alike in groups.values():
        found += [_ranking(group, _apart(group[0].row, alike[0][0].row, varied)) for group in alike]
    return found


def _apart(a: Row, b: Row, varied: set[str]) -> Differing:
    return {key: values for key, values in differing_in(a, b).items() if key not in varied}


def _varied(run: Run) -> Iterator[str]:
    """Settings of training in which rows of one run differ; not the start, whose own training no figure has."""
    first = _fingerprint(run.rows[0])
    for row in run.rows[1:]:
        own = _fingerprint(row)
        keys = (key for key in own | first if key.startswith("training.") and not key.startswith("training.start"))
        yield from (key for key in keys if own.get(key) != first.get(key))


def _ranking(group: Sequence[Member], differing: Differing) -> Ranking:
    compared = against_best({str(place): member.fids for place, member in enumerate(group)})
    best = compared.best()
    seeds: dict[str, set[int]] = {}
    for member in group:
        seeds.setdefault(member.run.name, set()).update(member.fids)
    return Ranking(
        members=[group[int(place)] for place in compared.names],
        best=[rank for rank, place in enumerate(compared.names) if place in best],
        apart=[(a, b) for a, b in combinations(seeds, 2) if not seeds[a] & seeds[b]],
        differing=differing,
    )


def speeds(runs: Sequence[Run]) -> list[Speed]:
    """Return the timed rows that several runs have, each with its machine."""
    found = []
    for members in same_rows(runs):
        timed = [member for member in members if member.row.speedup]
        found += [Speed(of=one, machine=machine(one), ratio=_ratio(one, timed[0])) for one in timed]
    return found


def machine(member: Member) -> str:
    """Return where it was timed: the device, and what else distinguishes machines."""
    timed = next(record for record in member.row.done if record.timing).conditions
    where = (timed.timed_under or timed).stated()
    cpus = member.run.plan.hardware.get("cpus")
    parts = [str(where[name]) for name in _TIMED_ON if where.get(name)]
    return ", ".join([*parts, f"{cpus} CPUs"] if cpus else parts)


def _ratio(of: Member, to: Member) -> tuple[float, float, float] | None:
    """Of two speed-ups, each paired with dense in its own run; a dense row has none."""
    if of.run is to.run or of.row.is_dense or machine(of) != machine(to):
        return None
    if any(key.startswith("data.") or key == "training.batch" for key in differing_in(of.row, to.row)):
        return None
    own, earlier = (dict(enumerate(_log_speedups(member.row))) for member in (of, to))
    estimate = welch_difference(own, earlier)
    if estimate is None or estimate.bounds is None:
        return None
    ratio, low, high = np.exp([estimate.mean, *estimate.bounds])
    return float(ratio), float(low), float(high)


def _log_speedups(row: Row) -> list[float]:
    return [
        math.log(dense / routed)
        for timing in row.timings
        for dense, routed in zip(timing.reference_step_times_ms, timing.step_times_ms, strict=True)
    ]


def conditions_that_differ(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Versions, machines and numerical choices that are not the same in all runs: the values of each run."""
    of_runs = []
    for run in runs:
        found: dict[str, set[str]] = {}
        for row in run.rows:
            for record in row.done:
                for key, value in decisive(record.conditions).items():
                    found.setdefault(key, set()).add(_words(value))
        of_runs.append({"suite": run.plan.suite.name} | {key: names(sorted(some)) for key, some in found.items()})
    keys = dict.fromkeys(chain.from_iterable(of_runs))
    table = {key: [one.get(key, "none") for one in of_runs] for key in keys}
    return {key: values for key, values in table.items() if len(set(values)) > 1}
