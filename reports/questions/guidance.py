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


class Checkpoint(NamedTuple):
    """The results of a checkpoint without guidance, and under each rule, by scale. Every row has an FID."""

    name: str
    unguided: Row | None
    rules: dict[str, list[Row]]

    @property
    def places(self) -> int:
        """Decimals that suit all its FIDs."""
        return decimals(fid_of(row) for of_rule in self.rules.values() for row in of_rule)

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
        rules = by_key(guided, lambda row: requested.rule_in_words(row.first))
        for of_rule in rules.values():
            of_rule.sort(key=lambda row: requested.guidance_scale(row.first))
        full_name = f"{members[0].architecture} {name}" if are_several else name
        made.append(Checkpoint(full_name, alike[0] if alike else None, rules))
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
        judged = [row for of_rule in made.rules.values() if len(of_rule) > 1 for row in of_rule]
        if not judged:
            continue
        best = min(judged, key=fid_of)
        how = f"with {requested.guided(best.first)}"
        if made.unguided and fid_of(made.unguided) < fid_of(best):
            best, how = made.unguided, "without guidance"
        said.append(f"{made.name}: {number(fid_of(best), made.places)} {how}")
    if not said:
        return "Every rule ran at one scale only, so rules are not compared and none is called best."
    return f"Each rule at the best of its scales, the lowest FID is, for {'; for '.join(said)}."


def scope(rows: Sequence[Row]) -> str:
    """Return the limits of these sentences."""
    rules = [one for made in checkpoints(rows) for one in made.rules.items()]
    single = sorted({rule for rule, of_rule in rules if len(of_rule) == 1})
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
        first = next(iter(made.rules.values()))[0].first
        trained = " ".join(filter(None, (requested.method(first), first.routes, requested.scheduled(first))))
        ordered = sorted(made.rules.values(), key=lambda rows: (len(rows) == 1, min(map(fid_of, rows))))
        said = "; ".join(_rule(made, of_rule) for of_rule in ordered[:_LISTED])
        others = len(ordered) - _LISTED
        rest = f"; the other {plural(others, 'rule')} in the table below" if others > 0 else ""
        found.append((made.name, trained, f"{said}{rest}."))
    return found


def _rule(made: Checkpoint, rows: Sequence[Row]) -> str:
    """Its row of the lowest mean FID."""
    best, places = min(rows, key=fid_of), made.places
    gain = made.gain(best)
    how = "the only scale, so not compared"
    if len(rows) > 1:
        edge = ", at the edge of the sweep" if best in (rows[0], rows[-1]) else ""
        how = f"best of {plural(len(rows), 'scale')}{edge}"
    change = ""
    if gain:
        change = f", {number(gain.mean, places, True)} to no guidance ({interval(gain, places, True)})"
    return f"{requested.guided(best.first)} ({how}): FID {number(fid_of(best), places)}{change}"


def figure(rows: Sequence[Row]) -> Figure:
    """FID over the scale of guidance, a panel per checkpoint, a line per rule; no guidance is the point at scale 1."""
    lines: list[tuple[object, ...]] = []
    for made in checkpoints(rows):
        plain = made.unguided and made.unguided.sampling_macs
        every = {"no guidance": [made.unguided]} if made.unguided else {}
        for rule, of_rule in (every | made.rules).items():
            for row in of_rule:
                is_plain, macs = row is made.unguided, row.sampling_macs
                gain, scale = None, 1.0
                if not is_plain:
                    gain, scale = made.gain(row), requested.guidance_scale(row.first)
                ratio = macs / plain if macs and plain else None
                about = (row.name, made.name, rule, is_plain, scale, gain and gain.mean, macs and macs / 1e9, ratio)
                lines.extend((*about, fid) for fid in row.scores["fid"].values())
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
