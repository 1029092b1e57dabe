"""`plan --detect`: how many seeds a suite needs to find a difference in FID between its rows and their references."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tread_bench.core.config.suite import MAX_SEEDS
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.statistics import CONFIDENCE, LEVEL, POWER, Spread, paired_test_power, seeds_to_find
from tread_bench.runner.sources import read_run
from tread_bench.suite.plan import Plan, PlannedCell

_NAMED = 3  # rows in a message
ComparedAt = Literal["equal cost", "equal iterations"]


@dataclass(frozen=True, slots=True)
class DetectRequest:
    """What `--detect` requests: a difference in FID to find, and the spread of paired ones, stated or that of a run."""

    difference: float
    spread: float | None = None
    run: Path | None = None

    @classmethod
    def of(cls, difference: float | None, spread: float | None, run: Path | None) -> DetectRequest | None:
        """Return what these options request; None where nothing is to be found. Raises UserError."""
        if difference is None:
            if spread is None and run is None:
                return None
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
        return cls(difference, spread, run)


@dataclass(frozen=True, slots=True)
class DetectedRow:
    """A row beside its reference, and the number of seeds that finds the difference at what they are compared at.

    `seeds_upper` is that number if the spread is `spread_upper`, and `power` that of the suite's own seeds. None: not
    known, or of seeds, more than a suite may have. `differing` are the parts of the cell that the run had otherwise.
    """

    row: str
    reference: str
    pairs: int | None = None
    spread: float | None = None
    spread_upper: float | None = None
    power: float | None = None
    seeds: int | None = None
    seeds_upper: int | None = None
    compared_at: ComparedAt | None = None
    differing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Detection:
    """What seeds can find, by two-sided paired t-tests at `level` / `comparisons`, the number of rows."""

    difference: float
    suite_seeds: int
    comparisons: int
    rows: Sequence[DetectedRow]
    level: float = LEVEL
    target_power: float = POWER
    spread_confidence: float = CONFIDENCE

    def as_json(self) -> dict[str, Any]:
        """Return its JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Measured:
    """The spread of a row's differences in a run, and the parts of its cell that differ from the suite's."""

    spread: Spread
    compared_at: ComparedAt | None = None
    differing: tuple[str, ...] = ()


def detect(plan: Plan, request: DetectRequest) -> Detection:
    """Compute the seeds that find the requested difference, row by row.

    Each row is tested at the level over the number of rows, so that it has at least the stated power, whatever the
    other rows show.

    Raises:
        UserError: the suite compares no rows by FID, or the run does not show how much they vary.
    """
    # The rows that the report tests against a reference, and how much their differences vary.
    references = {row: _reference(cells[0], plan) for row, cells in plan.rows.items()}
    compared = {row: cells[0] for row, cells in plan.rows.items() if references[row]}
    if not compared:
        raise UserError(f"{plan.suite.name} compares no row with another one by FID, so there is nothing to --detect")
    if request.run is None:
        assert request.spread is not None, "a request has a spread or a run"
        spreads = dict.fromkeys(compared, _Measured(Spread(request.spread)))
    else:
        spreads = _spreads_in(request.run, compared)

    # Seeds and power of each.
    level = LEVEL / len(compared)
    planned = len(plan.suite.seeds)
    rows = []
    for row in compared:
        measured = spreads.get(row)
        if measured is None:
            rows.append(DetectedRow(row, references[row]))
            continue
        spread = measured.spread
        effect = _effect(request.difference, spread.value)
        rows.append(
            DetectedRow(
                row=row,
                reference=references[row],
                pairs=spread.pairs,
                spread=spread.value,
                spread_upper=spread.upper(),
                power=paired_test_power(effect, planned, level) if planned > 1 else 0.0,
                seeds=seeds_to_find(effect, MAX_SEEDS, level),
                seeds_upper=seeds_to_find(_effect(request.difference, spread.upper()), MAX_SEEDS, level),
                compared_at=measured.compared_at,
                differing=measured.differing,
            )
        )
    return Detection(request.difference, planned, len(compared), rows)


def _reference(cell: PlannedCell, plan: Plan) -> str:
    """The row that a cell's row is compared with by FID: the one of its budget, or its dense one; "" if none."""
    if not cell.cell.generates:
        return ""
    if cell.trains and (budget := cell.cell.training.budget) is not None:
        return budget.macs_of
    return next((other.row for other in plan.cells if other.id == cell.reference != cell.id), "")


def _effect(difference: float, spread: float) -> float:
    return difference / spread if spread else math.inf


def _spreads_in(run: Path, rows: Mapping[str, PlannedCell]) -> dict[str, _Measured]:
    """The spreads of those rows that a run or an export has too, by name. Raises UserError where it has none."""
    from tread_bench.reports.differences import ITERATIONS, MACS, Differences
    from tread_bench.reports.frame import results_frame
    from tread_bench.reports.rows.comparison import comparison

    # The rows of the run.
    source = read_run(run)
    if source.plan.smoke:
        raise UserError(f"{run} is a smoke run, whose figures mean nothing: name a finished run, or use --spread")
    compared = Differences(results_frame(source.records))

    # The spread of each that the suite has too.
    found = {}
    for row in comparison(source.records):
        at_macs = compared.of(row, MACS)
        difference = at_macs or compared.of(row, ITERATIONS)
        spread = Spread.behind(difference) if difference else None
        if spread is not None and row.name in rows:
            at: ComparedAt = "equal cost" if at_macs else "equal iterations"
            found[row.name] = _Measured(spread, at, _differing(row.first.config, rows[row.name]))
    if not found:
        named = ", ".join([*rows][:_NAMED]) + (", ..." if len(rows) > _NAMED else "")
        raise UserError(
            f"{run} has no row of this suite ({named}) with the FIDs of two seeds or more, and of its reference, so it "
            "does not show how much differences vary: name another run, or use --spread"
        )
    return found


def _differing(config: Mapping[str, Any], planned: PlannedCell) -> tuple[str, ...]:
    own = planned.cell.model_dump(mode="json")
    return tuple(key for key in own if config.get(key) != own[key])
