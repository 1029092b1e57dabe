"""The page that compares several runs: its sentences, tables and picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from tread_bench.reports.claims.compare import (
    Change,
    Conclusion,
    Difference,
    Differing,
    Ranking,
    Run,
    Speed,
    by_pair,
    conclusion,
    conditions_that_differ,
    differences,
    of_another_quantity,
    rankings,
    rows_of_one,
    same_rows,
    speeds,
)
from tread_bench.reports.figures.compare import run_differences
from tread_bench.reports.figures.picture import Picture
from tread_bench.reports.page.document import write_page
from tread_bench.reports.rows.row import Row
from tread_bench.reports.tables.tables import Entry, Table, difference_entry, estimate_entry, ratio_entry
from tread_bench.reports.text.decision import scope
from tread_bench.reports.text.numbers import DASH, decimals, names, number, plural
from tread_bench.reports.text.sentences import say


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was found: sentences for people, tables and pictures for the page and for papers."""

    decisions: dict[str, Conclusion]  # by their sentences
    sentences: list[str]
    differences: Table | None
    rows: Table
    rankings: list[tuple[Table, list[str]]]  # each with notes
    speed: Table | None
    drawn: list[Picture]

    @property
    def tables(self) -> list[Table]:
        """All of them."""
        ranked = [table for table, _ in self.rankings]
        return [table for table in (self.differences, self.rows, *ranked, self.speed) if table]


def compared(runs: Sequence[Run], exports: bool = False) -> Comparison:
    """Compare the runs, the first with each of the others."""
    found = differences(runs)
    concluded = [conclusion(of, to, members) for (of, to), members in by_pair(found).items()]
    picture = run_differences(found, exports)
    return Comparison(
        decisions={say("compare", "decision", one=one): one for one in concluded},
        sentences=sentences(found),
        differences=_differences(found),
        rows=_rows(runs),
        rankings=_rankings(rankings(runs)),
        speed=_speed(speeds(runs)),
        drawn=[picture] if picture else [],
    )


def write(made: Comparison, runs: Sequence[Run], notes: Sequence[str], out: Path) -> None:
    """Write figures/*.svg and index.html into `out`, each atomically.

    Args:
        notes: why records of the runs are left out.

    Raises:
        OutputError: what would be replaced is a link.
    """
    context: dict[str, Any] = {
        "name": f"Comparison of {names(run.name for run in runs)}",
        "made": made,
        "scope": scope(runs[0].rows),
        "notes": notes,
        "runs": runs,
        "conditions": conditions_that_differ(runs),
        "alone": rows_of_one(runs),
    }
    write_page(out, "compare.html.j2", made.drawn, **context)


# What a reader learns first


def sentences(found: Sequence[Difference]) -> list[str]:
    """Return what may be concluded, for each pair of runs."""
    if not found:
        return [say("compare", "nothing_shared")]
    return [_sentence(of, to, members) for (of, to), members in by_pair(found).items()]


def _sentence(of: str, to: str, found: Sequence[Difference]) -> str:
    by_outcome = {outcome: [one for one in found if one.outcome == outcome] for outcome in get_args(Change)}
    return say("compare", "pair", of=of, to=to, found=by_outcome, reasons=_reasons(by_outcome["not compared"]))


def _reasons(found: Sequence[Difference]) -> list[str]:
    """What makes FIDs different quantities, each once."""
    reasons: dict[str, None] = {}
    for one in found:
        shown = in_words(of_another_quantity(one.differing), one.of.run.name, one.to.run.name)
        reasons.update(dict.fromkeys(shown or ["one of them has no FID"]))
    return list(reasons)


def in_words(differing: Differing, of: str, to: str) -> list[str]:
    """Return what differs between two rows: "data.name is latents in B and digits in A"."""
    return [f"{key} is {own} in {of} and {other} in {to}" for key, (own, other) in differing.items()]


# Tables


def _differences(found: Sequence[Difference]) -> Table | None:
    if not found:
        return None
    places = decimals(value.mean for one in found for value in (one.of.row.fid, one.to.row.fid) if value)
    lines = []
    for one in found:
        test = DASH
        if one.fid:
            a, b = len(one.of.fids), len(one.to.fids)
            test = f"paired, {plural(one.fid.n, 'seed')}" if one.is_paired else f"Welch, {a} and {b} seeds"
        lines.append(
            [
                Entry(one.of.row.name), Entry(one.of.run.name), Entry(one.to.run.name),
                estimate_entry(one.of.row.fid, places), estimate_entry(one.to.row.fid, places),
                estimate_entry(one.fid, places, signed=True), Entry(test),
                Entry(_p(one.p_value), "", one.p_value), Entry(one.outcome),
                Entry("; ".join(in_words(one.differing, one.of.run.name, one.to.run.name)) or "nothing"),
            ]
        )  # fmt: skip
    headers = (
        *("Row", "Run", "Earlier run", "FID", "FID in the earlier run", "Difference"),
        *("Test", "p", "Change", "What differs"),
    )
    return Table("differences", "FID of the same row in two runs", headers, lines)


def _p(value: float | None) -> str:
    return "< 0.0001" if value is not None and value < 1e-4 else number(value, 4)


def _rows(runs: Sequence[Run]) -> Table:
    """Every row of every run, the same rows next to each other."""
    members = [member for some in same_rows(runs) for member in some] + rows_of_one(runs)
    fids = decimals(row.fid.mean for _, row in members if row.fid)
    losses = decimals(loss.mean for _, row in members if (loss := row.metric("validation_loss")))
    lines = []
    for run, row in members:
        lines.append(
            [
                Entry(row.name), Entry(run.name), Entry(row.group.backbone), Entry(_seeds(row)),
                Entry(f"{row.group.iteration:,}", "", row.group.iteration), estimate_entry(row.fid, fids),
                difference_entry(row, "fid", fids), estimate_entry(row.metric("validation_loss"), losses),
                ratio_entry(row.speedup),
            ]
        )  # fmt: skip
    headers = (
        *("Row", "Run", "Backbone", "Seeds", "Iteration", "FID", "Difference to its reference"),
        *("Validation loss", "Speed-up over dense"),
    )
    return Table("rows", "All rows of all runs", headers, lines)


def _seeds(row: Row) -> str:
    seeds = [record.seed for record in row.done]
    is_range = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if is_range else ", ".join(map(str, seeds))


def _rankings(found: Sequence[Ranking]) -> list[tuple[Table, list[str]]]:
    tables = []
    for place, ranking in enumerate(found):
        places = decimals(member.row.fid.mean for member in ranking.members if member.row.fid)
        lines = []
        for rank, member in enumerate(ranking.members):
            mark = DASH
            if rank in ranking.best:
                mark = "lowest FID" if rank == ranking.best[0] else "not distinguishable from the lowest"
            lines.append(
                [Entry(member.row.name), Entry(member.run.name), estimate_entry(member.row.fid, places), Entry(mark)]
            )
        row = ranking.members[0].row
        title = f"{row.group.backbone}, {names(ranking.runs)}"
        name = f"ranking-{place + 1}" if place else "ranking"
        tables.append((Table(name, title, ("Row", "Run", "FID", "Rank"), lines), _notes(ranking)))
    return tables


def _notes(ranking: Ranking) -> list[str]:
    """What the reader of a ranking must know."""
    notes = [say("compare", "apart", a=a, b=b) for a, b in ranking.apart]
    if ranking.differing:
        notes.insert(0, say("compare", "not_ranked", differing=ranking.differing))
    return notes


def _speed(found: Sequence[Speed]) -> Table | None:
    if not found:
        return None
    lines = []
    for one in found:
        speedup, ratio = ratio_entry(one.of.row.speedup), ratio_entry(one.ratio)
        lines.append([Entry(one.of.row.name), Entry(one.of.run.name), Entry(one.machine), speedup, ratio])
    headers = ("Row", "Run", "Machine", "Speed-up over dense", "Over that in the first run")
    return Table("speed", "Speed-up over dense, each paired in its own run", headers, lines)
