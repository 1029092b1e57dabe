"""Rows that evaluate the same checkpoints under several rules of guidance: a rule is compared at its best scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from tread_bench.core.numbers.statistics import MeanInterval, paired_difference
from tread_bench.reports import requested
from tread_bench.reports.figure import Figure
from tread_bench.reports.row import Row, by_key
from tread_bench.reports.text.numbers import decimals, interval, names, number, plural

_LISTED = 3  # rules in a statement


class Sweep(NamedTuple):
    """One rule on one checkpoint, its rows by scale."""

    rule: str
    rows: list[Row]

    @property
    def best(self) -> Row:
        """Of the lowest mean FID. Every row of a sweep has one."""
        return min(self.rows, key=fid_of)


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
        return decimals(fid_of(row) for sweep in self.sweeps for row in sweep.rows)

    def gain(self, row: Row) -> MeanInterval | None:
        """FID of the row minus that without guidance, paired over seeds."""
        return paired_difference(row.scores["fid"], self.unguided.scores["fid"]) if self.unguided else None


def fid_of(row: Row) -> float:
    """The mean of a row that has an FID."""
    fid = row.fid
    assert fid is not None
    return fid.mean


def checkpoints(rows: Sequence[Row]) -> list[Checkpoint]:
    """Those evaluated under guidance as well as without, or at several scales, in the order of the rows."""
    # The rows of each checkpoint; of those with several rows, some of them guided.
    measured = [row for row in rows if row.fid]
    found = by_key(measured, lambda row: (row.group.backbone, requested.checkpoint(row.first)))
    compared = {key: of_key for key, of_key in found.items() if len(of_key) > 1 and any(map(_is_guided, of_key))}
    are_several = len({backbone for backbone, _ in compared}) > 1
    made = []
    for (_, name), members in compared.items():
        guided = [row for row in members if _is_guided(row)]

        # Without guidance: a row that was evaluated only, as the guided ones were, before the one that was trained.
        alike = [row for row in members if not _is_guided(row) and row.group == guided[0].group]
        alike.sort(key=lambda row: not requested.is_evaluated_only(row.first))

        # The guided rows by rule, then by scale.
        sweeps = []
        for rule, of_rule in by_key(guided, lambda row: requested.rule_in_words(row.first)).items():
            sweeps.append(Sweep(rule, sorted(of_rule, key=lambda row: requested.guidance_scale(row.first))))
        full_name = f"{members[0].architecture} {name}" if are_several else name
        made.append(Checkpoint(full_name, alike[0] if alike else None, sweeps))
    return made


def _is_guided(row: Row) -> bool:
    return requested.is_guided(row.first)


def is_swept(rows: Sequence[Row]) -> bool:
    """Return whether guidance is what the rows are about."""
    return bool(checkpoints(rows))


def summary(rows: Sequence[Row]) -> str:
    """Return the best rule of every checkpoint, in one sentence, without rules that ran at one scale only."""
    said = []
    for made in checkpoints(rows):
        if made.judged:
            best = min((sweep.best for sweep in made.judged), key=fid_of)
            if made.unguided and fid_of(made.unguided) < fid_of(best):
                said.append(f"{made.name}: {number(fid_of(made.unguided), made.places)} without guidance")
            else:
                said.append(f"{made.name}: {number(fid_of(best), made.places)} with {requested.guided(best.first)}")
    if not said:
        return "Every rule ran at one scale only, so rules are not compared and none is called best."
    return f"Each rule at the best of its scales, the lowest FID is, for {'; for '.join(said)}."


def scope(rows: Sequence[Row]) -> str:
    """Return the limits of these sentences."""
    single = sorted({sweep.rule for made in checkpoints(rows) for sweep in made.sweeps if len(sweep.rows) == 1})
    which = "that rule is" if len(single) == 1 else "those rules are"
    not_compared = f" {names(single)} ran at one scale only, so {which} not compared." if single else ""
    return (
        "A best scale is chosen by the same samples that measure its FID, so this FID is optimistic, the more so the "
        f"more scales were tried. All rules sample from the same checkpoints.{not_compared}"
    )


def statements(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """(checkpoint, how it was trained, every rule at its best scale against no guidance).

    Those of the lowest FID are in full; a rule that ran at one scale comes last.
    """
    found = []
    for made in checkpoints(rows):
        first = made.sweeps[0].best.first
        trained = " ".join(filter(None, (requested.method(first), first.routes, requested.scheduled(first))))
        ordered = sorted(made.sweeps, key=lambda sweep: (len(sweep.rows) == 1, fid_of(sweep.best)))
        said = "; ".join(_rule(made, sweep) for sweep in ordered[:_LISTED])
        others = len(ordered) - _LISTED
        rest = f"; the other {plural(others, 'rule')} in the table below" if others > 0 else ""
        found.append((made.name, trained, f"{said}{rest}."))
    return found


def _rule(made: Checkpoint, sweep: Sweep) -> str:
    best, gain, places = sweep.best, made.gain(sweep.best), made.places
    how = "the only scale, so not compared"
    if len(sweep.rows) > 1:
        is_at_edge = best in (sweep.rows[0], sweep.rows[-1])
        how = f"best of {plural(len(sweep.rows), 'scale')}{', at the edge of the sweep' if is_at_edge else ''}"
    change = ""
    if gain:
        change = f", {number(gain.mean, places, True)} to no guidance ({interval(gain, places, True)})"
    return f"{requested.guided(best.first)} ({how}): FID {number(fid_of(best), places)}{change}"


def figure(rows: Sequence[Row]) -> Figure:
    """FID over the scale of guidance, a panel per checkpoint, a line per rule; no guidance is the point at scale 1."""
    lines: list[tuple[object, ...]] = []
    for made in checkpoints(rows):
        plain = made.unguided.sampling_macs if made.unguided else None
        every = [("no guidance", [made.unguided])] if made.unguided else []
        for rule, of_rule in [*every, *((sweep.rule, sweep.rows) for sweep in made.sweeps)]:
            for row in of_rule:
                scale = requested.guidance_scale(row.first) if requested.is_guided(row.first) else 1.0
                gain = None if row is made.unguided else made.gain(row)
                macs = row.sampling_macs
                ratio = macs / plain if macs and plain else None
                of_row = (
                    row.name,
                    made.name,
                    rule,
                    row is made.unguided,
                    scale,
                    gain and gain.mean,
                    macs and macs / 1e9,
                )
                lines.extend((*of_row, ratio, fid) for fid in row.scores["fid"].values())
    columns = ["row", "checkpoint", "rule", "is_dense", "scale", "gain", "gmacs", "ratio", "fid"]
    return Figure(
        name="guidance",
        title="Guidance",
        caption="Every rule on the same checkpoints over a sweep of scales, with 95 % t intervals over seeds; the "
        "circle at scale 1, the strong branch alone, is the same checkpoint without guidance. Strong and weak are the "
        "shares of the tokens that bypass in the two branches. A best scale is chosen by the same samples that measure "
        "its FID.",
        lines=pd.DataFrame(lines, columns=columns),
        x="scale",
        y="fid",
        hue="rule",
        panel="checkpoint",
        logarithmic="y",
        extra={"gain": "ΔFID to no guidance", "gmacs": "GMACs per image", "ratio": "MACs, no guidance = 1"},
        titles={"scale": "scale", "fid": "FID"},
    )  # fmt: skip
