"""Rows that evaluate the same checkpoints under several rules of guidance: a rule is compared at its best scale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from tread_bench.core.numbers.statistics import MeanInterval, paired_difference
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.comparison import lowest_fids
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import decimals, interval, names, number, plural

_LISTED = 3  # rules in a statement


class Sweep(NamedTuple):
    """One rule on one checkpoint, its rows by scale."""

    rule: str
    rows: list[Row]

    @property
    def best(self) -> Row:
        """Of the lowest mean FID. Every row of a sweep has one."""
        return min(self.rows, key=lambda row: fid_of(row).mean)


class Checkpoint(NamedTuple):
    """The results of a checkpoint without guidance, and under each rule."""

    name: str
    unguided: Row | None
    sweeps: list[Sweep]

    @property
    def judged(self) -> list[Sweep]:
        """Those of several scales."""
        return [sweep for sweep in self.sweeps if len(sweep.rows) > 1]

    @property
    def places(self) -> int:
        """Decimals that suit all its FIDs."""
        return decimals(fid_of(row).mean for sweep in self.sweeps for row in sweep.rows)

    def gain(self, row: Row) -> MeanInterval | None:
        """FID of the row minus that without guidance, paired over seeds."""
        return paired_difference(row.scores["fid"], self.unguided.scores["fid"]) if self.unguided else None


def fid_of(row: Row) -> MeanInterval:
    """Of a row that has an FID."""
    fid = row.fid
    assert fid is not None
    return fid


def checkpoints(rows: Sequence[Row]) -> list[Checkpoint]:
    """Those evaluated under guidance as well as without, or at several scales, in the order of the rows."""
    # The rows of each checkpoint.
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.fid:
            found.setdefault((row.group.backbone, requested.checkpoint(row.first)), []).append(row)

    # Of those with several rows, some of them guided.
    compared = {key: members for key, members in found.items() if len(members) > 1 and any(map(_is_guided, members))}
    are_several = len({backbone for backbone, _ in compared}) > 1
    checkpoints = []
    for (_, name), members in compared.items():
        full_name = f"{members[0].architecture} {name}" if are_several else name
        checkpoints.append(_checkpoint(full_name, members))
    return checkpoints


def _is_guided(row: Row) -> bool:
    return requested.is_guided(row.first)


def _checkpoint(name: str, members: Sequence[Row]) -> Checkpoint:
    guided = [row for row in members if _is_guided(row)]
    plain = [row for row in members if not _is_guided(row)]

    # Without guidance: a row that was evaluated only, as the guided ones were, before the one that was trained.
    judged_alike = [row for row in plain if row.group == guided[0].group]
    unguided = next(
        (row for row in judged_alike if requested.is_evaluated_only(row.first)), next(iter(judged_alike), None)
    )

    # The guided rows by rule, then by scale.
    rows_by_rule: dict[str, list[Row]] = {}
    for row in guided:
        rows_by_rule.setdefault(requested.rule_in_words(row.first), []).append(row)
    sweeps = []
    for rule, rows in rows_by_rule.items():
        sweeps.append(Sweep(rule, sorted(rows, key=lambda row: requested.guidance_scale(row.first))))
    return Checkpoint(name, unguided, sweeps)


def is_swept(rows: Sequence[Row]) -> bool:
    """Return whether guidance is what the rows are about."""
    return bool(checkpoints(rows))


def summary(rows: Sequence[Row]) -> str:
    """Return the best rule of every checkpoint, in one sentence, without rules that ran at one scale only."""
    found = [made for made in checkpoints(rows) if made.judged]
    if not found:
        return "Every rule ran at one scale only, so rules are not compared and none is called best."
    each = "; for ".join(f"{made.name}: {_best(made)}" for made in found)
    return f"Each rule at the best of its scales, the lowest FID is, for {each}."


def _best(made: Checkpoint) -> str:
    """All rows of all sweeps are compared, and a rule is as good as the best of its scales."""
    best, *others = lowest_fids(list(chain.from_iterable(sweep.rows for sweep in made.judged)))
    fid = fid_of(best).mean
    places = made.places
    if made.unguided and fid_of(made.unguided).mean < fid:
        return f"{number(fid_of(made.unguided).mean, places)} without guidance"

    # Other rules with a scale that is not distinguishable from the best.
    alike = []
    undistinguished = {id(row) for row in others}
    for sweep in made.judged:
        is_other = sweep.rule != requested.rule_in_words(best.first)
        if is_other and any(id(row) in undistinguished for row in sweep.rows):
            alike.append(requested.guided(sweep.best.first))
    also = f", not distinguishable from {_among(alike)}" if alike else ""
    return f"{number(fid, places)} with {requested.guided(best.first)}{also}"


def _among(alike: Sequence[str]) -> str:
    return names(alike) if len(alike) <= _LISTED else f"{len(alike)} other rules"


def scope(rows: Sequence[Row]) -> str:
    """Return the limits of these sentences."""
    single = sorted({sweep.rule for made in checkpoints(rows) for sweep in made.sweeps if len(sweep.rows) == 1})
    alone = f" {names(single)} ran at one scale only, so {_it(single)} not compared." if single else ""
    return (
        "A best scale is chosen by the same samples that measure its FID, so this FID is optimistic, the more so the "
        f"more scales were tried. All rules sample from the same checkpoints.{alone}"
    )


def _it(single: Sequence[str]) -> str:
    return "that rule is" if len(single) == 1 else "those rules are"


def statements(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """(checkpoint, how it was trained, every rule at its best scale against no guidance)."""
    return [(made.name, _trained(made), _rules(made)) for made in checkpoints(rows)]


def _rules(made: Checkpoint) -> str:
    """Those of the lowest FID in full; a rule that ran at one scale comes last."""
    ordered = sorted(made.sweeps, key=lambda sweep: (len(sweep.rows) == 1, fid_of(sweep.best).mean))
    listed = "; ".join(_rule(made, sweep) for sweep in ordered[:_LISTED])
    if len(ordered) <= _LISTED:
        return f"{listed}."
    return f"{listed}; the other {plural(len(ordered) - _LISTED, 'rule')} in the table below."


def _trained(made: Checkpoint) -> str:
    first = made.sweeps[0].best.first
    return " ".join(filter(None, (requested.method(first), first.routes, requested.scheduled(first))))


def _rule(made: Checkpoint, sweep: Sweep) -> str:
    best = sweep.best
    places = made.places
    if len(sweep.rows) > 1:
        edge = ", at the edge of the sweep" if best in (sweep.rows[0], sweep.rows[-1]) else ""
        scales = f"best of {plural(len(sweep.rows), 'scale')}{edge}"
    else:
        scales = "the only scale, so not compared"
    statement = f"{requested.guided(best.first)} ({scales}): FID {number(fid_of(best).mean, places)}"
    gain = made.gain(best)
    if gain is None:
        return statement
    return f"{statement}, {number(gain.mean, places, True)} to no guidance ({interval(gain, places, True)})"
