"""Rows that judge the same checkpoints under several rules of guidance: a rule is judged at the best of its scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tread_bench.core.statistics import Estimate, paired_difference
from tread_bench.reports import requested
from tread_bench.reports.comparison import Row, lowest_fids
from tread_bench.reports.numbers import decimals, interval, names, number, plural

_TOLD = 3  # rules in a statement


class Sweep(NamedTuple):
    """One rule on one checkpoint, its rows by scale."""

    rule: str
    rows: list[Row]

    @property
    def best(self) -> Row:
        """Of the lowest mean FID. Every row of a sweep has one."""
        return min(self.rows, key=lambda row: fid_of(row).mean)


class Checkpoint(NamedTuple):
    """What a checkpoint gives without guidance, and under each rule."""

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

    def gain(self, row: Row) -> Estimate | None:
        """FID of the row minus that without guidance, paired over seeds."""
        return paired_difference(row.scores["fid"], self.unguided.scores["fid"]) if self.unguided else None


def fid_of(row: Row) -> Estimate:
    """Of a row that has an FID."""
    fid = row.fid
    assert fid is not None
    return fid


def checkpoints(rows: Sequence[Row]) -> list[Checkpoint]:
    """Those that were judged under guidance as well as without, or at several scales, in the order of the rows."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.fid:
            found.setdefault((row.group.backbone, requested.checkpoint(row.first)), []).append(row)
    judged = {key: members for key, members in found.items() if len(members) > 1 and any(map(_is_guided, members))}
    several = len({backbone for backbone, _ in judged}) > 1
    return [
        _checkpoint(f"{members[0].architecture} {name}" if several else name, members)
        for (_, name), members in judged.items()
    ]


def _is_guided(row: Row) -> bool:
    return requested.is_guided(row.first)


def _checkpoint(name: str, members: Sequence[Row]) -> Checkpoint:
    guided = [row for row in members if _is_guided(row)]
    plain = [row for row in members if not _is_guided(row)]
    judged_alike = [row for row in plain if row.group == guided[0].group]
    unguided = next(
        (row for row in judged_alike if requested.is_evaluated_only(row.first)), next(iter(judged_alike), None)
    )
    rules = dict.fromkeys(requested.rule_in_words(row.first) for row in guided)
    sweeps = [[row for row in guided if requested.rule_in_words(row.first) == rule] for rule in rules]
    ordered = [sorted(sweep, key=lambda row: requested.guidance_scale(row.first)) for sweep in sweeps]
    return Checkpoint(name, unguided, [Sweep(rule, sweep) for rule, sweep in zip(rules, ordered, strict=True)])


def is_swept(rows: Sequence[Row]) -> bool:
    """Whether guidance is what the rows are about."""
    return bool(checkpoints(rows))


def lead(rows: Sequence[Row]) -> str:
    """The best rule of every checkpoint, in one sentence; a rule that ran at one scale takes no part."""
    found = [made for made in checkpoints(rows) if made.judged]
    if not found:
        return "Every rule ran at one scale only, by which a rule is not judged, so none is called best."
    told = "; for ".join(f"{made.name}: {_best(made)}" for made in found)
    return f"Each rule at the best of its scales, the lowest FID is, for {told}."


def _best(made: Checkpoint) -> str:
    """All rows of all sweeps are compared, and a rule is as good as the best of its scales."""
    best, *others = lowest_fids([row for sweep in made.judged for row in sweep.rows])
    fid, places = fid_of(best).mean, made.places
    alike = [
        requested.guided(sweep.best.first)
        for sweep in made.judged
        if sweep.rule != requested.rule_in_words(best.first) and any(row is one for row in others for one in sweep.rows)
    ]
    if made.unguided and fid_of(made.unguided).mean < fid:
        return f"{number(fid_of(made.unguided).mean, places)} without guidance"
    also = f", not distinguishable from {_among(alike)}" if alike else ""
    return f"{number(fid, places)} with {requested.guided(best.first)}{also}"


def _among(alike: Sequence[str]) -> str:
    return names(alike) if len(alike) <= _TOLD else f"{len(alike)} other rules"


def scope(rows: Sequence[Row]) -> str:
    """What these sentences do not say."""
    single = sorted({sweep.rule for made in checkpoints(rows) for sweep in made.sweeps if len(sweep.rows) == 1})
    alone = f" {names(single)} ran at one scale only, so {_it(single)} not judged." if single else ""
    return (
        "A best scale is chosen by the same samples that it is judged by, so its FID is optimistic, the more so the "
        f"more scales were tried. All rules judge the same checkpoints.{alone}"
    )


def _it(single: Sequence[str]) -> str:
    return "that rule is" if len(single) == 1 else "those rules are"


def statements(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """(checkpoint, how it was trained, every rule at its best scale against no guidance)."""
    return [(made.name, _trained(made), _rules(made)) for made in checkpoints(rows)]


def _rules(made: Checkpoint) -> str:
    """Those of the lowest FID in full; a rule that ran at one scale comes last."""
    ordered = sorted(made.sweeps, key=lambda sweep: (len(sweep.rows) == 1, fid_of(sweep.best).mean))
    left = f"; the other {plural(len(ordered) - _TOLD, 'rule')} in the table below" if len(ordered) > _TOLD else ""
    return f"{'; '.join(_rule(made, sweep) for sweep in ordered[:_TOLD])}{left}."


def _trained(made: Checkpoint) -> str:
    first = made.sweeps[0].best.first
    return " ".join(filter(None, (requested.method(first), first.routes, requested.scheduled(first))))


def _rule(made: Checkpoint, sweep: Sweep) -> str:
    best, gain, places = sweep.best, made.gain(sweep.best), made.places
    edge = ", at the edge of the sweep" if best in (sweep.rows[0], sweep.rows[-1]) else ""
    several = f"best of {plural(len(sweep.rows), 'scale')}{edge}"
    scales = several if len(sweep.rows) > 1 else "the only scale, so not judged"
    said = f"{requested.guided(best.first)} ({scales}): FID {number(fid_of(best).mean, places)}"
    if gain is None:
        return said
    return f"{said}, {number(gain.mean, places, True)} to no guidance ({interval(gain, places, True)})"
