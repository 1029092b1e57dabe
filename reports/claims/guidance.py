"""Rows that evaluate the same checkpoints under several rules of guidance: a rule is compared at its best scale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from tread_bench.core.numbers.statistics import MeanInterval, paired_difference
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.comparison import lowest_fids
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.text.numbers import decimals
from tread_bench.reports.text.sentences import say

_LISTED = 3  # rules in a statement


class Sweep(NamedTuple):
    """One rule on one checkpoint, its rows by scale."""

    rule: str
    rows: list[Row]

    @property
    def best(self) -> Row:
        """Of the lowest mean FID. Every row of a sweep has one."""
        return min(self.rows, key=lambda row: fid_of(row).mean)

    @property
    def guided(self) -> str:
        """The rule at that scale, in words."""
        return requested.guided(self.best.first)


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
    measured = [row for row in rows if row.fid]
    found = by_key(measured, lambda row: (row.group.backbone, requested.checkpoint(row.first)))

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
    sweeps = []
    for rule, rows in by_key(guided, lambda row: requested.rule_in_words(row.first)).items():
        sweeps.append(Sweep(rule, sorted(rows, key=lambda row: requested.guidance_scale(row.first))))
    return Checkpoint(name, unguided, sweeps)


def is_swept(rows: Sequence[Row]) -> bool:
    """Return whether guidance is what the rows are about."""
    return bool(checkpoints(rows))


def summary(rows: Sequence[Row]) -> str:
    """Return the best rule of every checkpoint, in one sentence, without rules that ran at one scale only."""
    found = [made for made in checkpoints(rows) if made.judged]
    return say("guidance", "summary", found=[(made.name, _best(made)) for made in found])


def _best(made: Checkpoint) -> str:
    """All rows of all sweeps are compared, and a rule is as good as the best of its scales."""
    best, *others = lowest_fids(list(chain.from_iterable(sweep.rows for sweep in made.judged)))
    fid = fid_of(best).mean
    places = made.places
    if made.unguided and fid_of(made.unguided).mean < fid:
        return say("guidance", "unguided", fid=fid_of(made.unguided).mean, places=places)

    # Other rules with a scale that is not distinguishable from the best.
    alike = []
    undistinguished = {id(row) for row in others}
    for sweep in made.judged:
        is_other = sweep.rule != requested.rule_in_words(best.first)
        if is_other and any(id(row) in undistinguished for row in sweep.rows):
            alike.append(sweep.guided)
    rule = requested.guided(best.first)
    return say("guidance", "best", fid=fid, rule=rule, alike=alike, listed=_LISTED, places=places)


def scope(rows: Sequence[Row]) -> str:
    """Return the limits of these sentences."""
    single = sorted({sweep.rule for made in checkpoints(rows) for sweep in made.sweeps if len(sweep.rows) == 1})
    return say("guidance", "scope", single=single)


def statements(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """(checkpoint, how it was trained, every rule at its best scale against no guidance)."""
    return [(made.name, _trained(made), _rules(made)) for made in checkpoints(rows)]


def _rules(made: Checkpoint) -> str:
    """Those of the lowest FID in full; a rule that ran at one scale comes last."""
    ordered = sorted(made.sweeps, key=lambda sweep: (len(sweep.rows) == 1, fid_of(sweep.best).mean))
    return say("guidance", "rules", made=made, sweeps=ordered, listed=_LISTED)


def _trained(made: Checkpoint) -> str:
    first = made.sweeps[0].best.first
    return " ".join(filter(None, (requested.method(first), first.routes, requested.scheduled(first))))
