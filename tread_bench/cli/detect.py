"""`plan --detect`: how many seeds a suite needs to find a difference in FID between its rows and their references."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from tread_bench.core.config.suite import MAX_SEEDS
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.statistics import CONFIDENCE, LEVEL, POWER, Spread, paired_test_power, seeds_to_find
from tread_bench.runner.sources import read_run
from tread_bench.suite.plan import Plan, PlannedCell

_NAMED = 3  # rows in a message
UNKNOWN = "not known"


def refuse_options(difference: float | None, spread: float | None, run: Path | None) -> None:
    """Raise UserError where `--detect`, `--spread` and `--from` are no question: a difference, and one spread."""
    if difference is None:
        option = "--from" if spread is None else "--spread"
        raise UserError(f"{option} is the spread of the differences that --detect is about: add --detect FID")
    problems = []
    for option, value in (("--detect", difference), ("--spread", spread)):
        if value is not None and not 0 < value < math.inf:
            problems.append(f"{option} {value:g}: must be a finite number above 0, in FID")
    if (spread is None) == (run is None):
        given = "neither was given" if run is None else "both were given"
        problems.append(
            "--detect needs one spread, either the standard deviation of paired differences (--spread S) or a "
            f"finished run that shows it (--from RUN): {given}"
        )
    if problems:
        raise UserError("\n".join(problems))


def seeds_for(plan: Plan, difference: float, stated: float | None, run: Path | None) -> dict[str, Any]:
    """Return how many seeds find a difference, row by row, by two-sided paired t-tests, as JSON values.

    Each row is tested at the level over the number of rows, so that it has at least the stated power, whatever the
    other rows show. `seeds_upper` is the number if the spread is `spread_upper`, `power` that of the suite's own seeds.
    None: not known, or of seeds, more than a suite may have. `differing` are the parts of the cell that the run had
    otherwise.

    Args:
        difference: in FID.
        stated: standard deviation of paired differences; None: that of a finished `run`.

    Raises:
        UserError: the suite compares no rows by FID, or the run does not show how much they vary.
    """
    # The rows that the report tests against a reference.
    rows: list[dict[str, Any]] = []
    unknown = ("pairs", "spread", "spread_upper", "power", "seeds", "seeds_upper", "compared_at")
    for name, cells in plan.rows.items():
        if reference := _reference(cells[0], plan):
            rows.append({"row": name, "reference": reference, **dict.fromkeys(unknown), "differing": ()})
    if not rows:
        raise UserError(f"{plan.suite.name} compares no row with another one by FID, so there is nothing to --detect")

    # How much their differences vary, and the seeds and power that follow.
    compared = {row["row"]: plan.rows[row["row"]][0] for row in rows}
    if run is None:
        assert stated is not None, "a spread is stated, or that of a run"
        spreads = dict.fromkeys(compared, (Spread(stated), dict[str, Any]()))
    else:
        spreads = _spreads_in(run, compared)
    level, planned = LEVEL / len(rows), len(plan.suite.seeds)
    for row in rows:
        if row["row"] not in spreads:
            continue
        spread, about = spreads[row["row"]]
        effect, least = (difference / value if value else math.inf for value in (spread.value, spread.upper()))
        row |= {
            "pairs": spread.pairs,
            "spread": spread.value,
            "spread_upper": spread.upper(),
            "power": paired_test_power(effect, planned, level) if planned > 1 else 0.0,
            "seeds": seeds_to_find(effect, MAX_SEEDS, level),
            "seeds_upper": seeds_to_find(least, MAX_SEEDS, level),
            **about,
        }
    return {
        "difference": difference,
        "suite_seeds": planned,
        "comparisons": len(rows),
        "rows": rows,
        "level": LEVEL,
        "target_power": POWER,
        "spread_confidence": CONFIDENCE,
    }


def _reference(cell: PlannedCell, plan: Plan) -> str:
    """The row that a cell's row is compared with by FID: the one of its budget, or its dense one; "" if none."""
    if not cell.cell.generates:
        return ""
    if cell.trains and (budget := cell.cell.training.budget) is not None:
        return budget.macs_of
    return next((other.row for other in plan.cells if other.id == cell.reference != cell.id), "")


def _spreads_in(run: Path, rows: Mapping[str, PlannedCell]) -> dict[str, tuple[Spread, dict[str, Any]]]:
    """The spreads of those rows that a run or an export has too, by name, what they are compared at, and the parts of
    the cell that differ.

    Raises:
        UserError: it has none.
    """
    from tread_bench.reports.differences import ITERATIONS, MACS
    from tread_bench.reports.study import Study

    # The run, whose figures must mean something.
    source = read_run(run)
    if source.plan.smoke:
        raise UserError(f"{run} is a smoke run, whose figures mean nothing: name a finished run, or use --spread")

    # The spread of the difference of each row that both have, at equal cost or else at equal iterations.
    spreads = {}
    for row in Study(source.records).rows:
        at_macs = row.difference(MACS)
        difference = at_macs or row.difference(ITERATIONS)
        spread = Spread.behind(difference) if difference else None
        if spread is not None and row.name in rows:
            own = rows[row.name].cell.model_dump(mode="json")
            differing = [key for key in own if row.first.config.get(key) != own[key]]
            at = "equal cost" if at_macs else "equal iterations"
            spreads[row.name] = spread, {"compared_at": at, "differing": differing}
    if not spreads:
        named = ", ".join([*rows][:_NAMED]) + (", ..." if len(rows) > _NAMED else "")
        raise UserError(
            f"{run} has no row of this suite ({named}) with the FIDs of two seeds or more, and of its reference, so it "
            "does not show how much differences vary: name another run, or use --spread"
        )
    return spreads


def detection_table(found: Mapping[str, Any]) -> Table:
    """Return a row for each comparison; columns on the uncertainty of spreads only where they were measured."""
    is_measured = any(row["pairs"] for row in found["rows"])
    titles = ["reference", "spread", f"power with\n{found['suite_seeds']} seeds", "seeds"]
    if is_measured:
        titles += ["compared at", "pairs", "spread\nat most", "seeds\nat most"]
    table = Table(Column("row", no_wrap=True), *titles)
    for row in found["rows"]:
        if row["spread"] is None:
            table.add_row(row["row"], row["reference"], UNKNOWN)
            continue
        cells = [row["reference"], f"{row['spread']:.3g}", _share(row["power"]), _seeds(row["seeds"])]
        if is_measured:
            upper = [f"{row['spread_upper']:.3g}", _seeds(row["seeds_upper"])]
            cells += [row["compared_at"], f"{row['pairs']}", *upper]
        table.add_row(row["row"], *cells)
    return table


def detection_in_words(found: Mapping[str, Any]) -> list[str]:
    """Return what the table says of all rows, and what it depends on, a sentence per line."""
    known = [row for row in found["rows"] if row["spread"] is not None]
    seeds, upper = _most(row["seeds"] for row in known), _most(row["seeds_upper"] for row in known)
    which = "every row" if len(known) == len(found["rows"]) else f"{len(known)} of {len(found['rows'])} rows"
    lines = [
        f"With {seeds} seeds, a difference of {found['difference']:g} FID is found in {which} with a power of "
        f"{_share(POWER)} or more (paired t-tests at {_share(LEVEL)}, two-sided, Holm-adjusted over "
        f"{found['comparisons']} rows)."
    ]
    if upper != seeds:
        bound = f"upper {_share(CONFIDENCE)} bound"
        lines.append(f"Few pairs leave a spread uncertain: with every spread at its {bound} it takes {upper} seeds.")
    if differing := sorted({part for row in known for part in row["differing"]}):
        lines.append(f"The run had other settings than this suite ({', '.join(differing)}): its spreads may not apply.")
    return lines


def _most(seeds: Iterable[int | None]) -> str:
    numbers = list(seeds)
    return _seeds(None if None in numbers else max(filter(None, numbers)))


def _seeds(number: int | None) -> str:
    return f"more than {MAX_SEEDS:,}" if number is None else f"{number:,}"


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"
