"""`plan --detect`: how many seeds a suite needs to find a difference in FID between its rows and their references."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from tread_bench.core.config.suite import MAX_SEEDS
from tread_bench.core.errors import UserError
from tread_bench.core.names import few
from tread_bench.core.numbers.statistics import LEVEL, POWER, Spread, paired_test_power, seeds_to_find
from tread_bench.runner.sources import read_run
from tread_bench.suite.plan import Plan, PlannedCell

_NAMED = 3  # rows in a message


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
    other rows show. `pairs` is the number that its `spread` was estimated from, null if stated; `power` that of the
    suite's own seeds; `seeds_upper` the seeds with the spread at its upper 95 % bound. All are null where the run does
    not show the spread, and seeds where they are more than a suite may have.

    Args:
        difference: in FID.
        stated: standard deviation of paired differences; None: that of a finished `run`.

    Raises:
        UserError: the suite compares no rows by FID, or the run does not show how much they vary.
    """
    # The rows that the report tests against a reference, and how much their differences vary.
    compared = {name: reference for name, cells in plan.rows.items() if (reference := _reference(cells[0], plan))}
    if not compared:
        raise UserError(f"{plan.suite.name} compares no row with another one by FID, so there is nothing to --detect")
    if run is not None:
        spreads = _spreads_in(run, compared)
    else:
        assert stated is not None, "a spread is stated, or that of a run"
        spreads = dict.fromkeys(compared, Spread(stated))

    # The seeds and the power that follow.
    level, planned = LEVEL / len(compared), len(plan.suite.seeds)
    unknown = dict.fromkeys(("pairs", "spread", "power", "seeds", "seeds_upper"))
    rows: list[dict[str, Any]] = [{"row": name, "reference": one, **unknown} for name, one in compared.items()]
    for row in rows:
        if (spread := spreads.get(row["row"])) is None:
            continue
        effect, least = (difference / value if value else math.inf for value in (spread.value, spread.upper()))
        row["pairs"], row["spread"] = spread.pairs, spread.value
        row["power"] = paired_test_power(effect, planned, level) if planned > 1 else 0.0
        row["seeds"] = seeds_to_find(effect, MAX_SEEDS, level)
        row["seeds_upper"] = seeds_to_find(least, MAX_SEEDS, level)
    return {"difference": difference, "suite_seeds": planned, "rows": rows}


def _reference(cell: PlannedCell, plan: Plan) -> str:
    """The row that a cell's row is compared with by FID: the one of its budget, or its dense one; "" if none."""
    if not cell.cell.generates:
        return ""
    if cell.trains and (budget := cell.cell.training.budget) is not None:
        return budget.macs_of
    return next((other.row for other in plan.cells if other.id == cell.reference != cell.id), "")


def _spreads_in(run: Path, rows: Mapping[str, str]) -> dict[str, Spread]:
    """The spreads of those rows that a run or an export has too, at equal cost or else at equal iterations.

    Raises:
        UserError: it has none.
    """
    from tread_bench.reports.differences import ITERATIONS, MACS
    from tread_bench.reports.study import Study

    source = read_run(run)
    if source.plan.smoke:
        raise UserError(f"{run} is a smoke run, whose figures mean nothing: name a finished run, or use --spread")
    spreads = {}
    for row in Study(source.records).rows:
        difference = row.difference(MACS) or row.difference(ITERATIONS)
        spread = Spread.behind(difference) if difference else None
        if spread is not None and row.name in rows:
            spreads[row.name] = spread
    if not spreads:
        raise UserError(
            f"{run} has no row of this suite ({few([*rows], _NAMED)}) with the FIDs of two seeds or more, and of its "
            "reference, so it does not show how much differences vary: name another run, or use --spread"
        )
    return spreads


def detection_table(found: Mapping[str, Any]) -> Table:
    """Return a line for each row that is compared."""
    own = f"power with\n{found['suite_seeds']} seeds"
    title = f"A difference of {found['difference']:g} FID, at {POWER:.0%} power, over {len(found['rows'])} rows"
    titles = ("reference", "spread", "pairs", own, "seeds", "seeds with the spread\nat its upper 95 % bound")
    table = Table(Column("row", no_wrap=True), *titles, title=title)
    for row in found["rows"]:
        if row["spread"] is None:
            table.add_row(row["row"], row["reference"], "not known")
            continue
        pairs = "stated" if row["pairs"] is None else str(row["pairs"])
        numbers = (_seeds(row["seeds"]), _seeds(row["seeds_upper"]))
        table.add_row(row["row"], row["reference"], f"{row['spread']:.3g}", pairs, f"{row['power']:.0%}", *numbers)
    return table


def _seeds(number: int | None) -> str:
    return f"more than {MAX_SEEDS:,}" if number is None else f"{number:,}"
