"""`plan --gpus` and `--budget`: when a suite is finished on several GPUs, and which rows fit into GPU-hours."""

from __future__ import annotations

import heapq
import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tread_bench.core.errors import UserError
from tread_bench.services.hours import in_hours
from tread_bench.suite.plan import Plan, state_bytes

_MOMENT_BYTES = 4  # per parameter of a matrix that Muon changes, which has one moment instead of two


def add_state(rows: Sequence[dict[str, Any]], plan: Plan) -> None:
    """Add `state_bytes` to the rows of a plan: what a training keeps from step to step."""
    for row in rows:
        cell = plan.rows[row["row"]][0].cell
        frozen = row["params"] + row["auxiliary_params"] - row["trained_params"]
        row["state_bytes"] = state_bytes(cell, row["trained_params"]) + 4 * frozen
        if cell.training.optimizer == "muon":
            from tread_bench.model.matrices import hidden_matrices  # needs torch

            shapes = hidden_matrices(cell.backbone.family(), cell.backbone.spec(cell.data)).values()
            row["state_bytes"] -= _MOMENT_BYTES * sum(map(math.prod, shapes))


@dataclass(frozen=True)
class OnGpus:
    """Hours until the last cell is trained on `gpus` GPUs, without starting and measuring speed.

    Args:
        a_cell_each: with a cell on each GPU, longest first.
        one_on_all: with one cell at a time on all GPUs, if each of them computes as much as it does alone.
    """

    gpus: int
    a_cell_each: float
    one_on_all: float

    @property
    def scaling(self) -> float:
        """Throughput of all GPUs on one cell, over that of as many alone, from which on this finishes first."""
        return self.one_on_all / self.a_cell_each

    def as_json(self) -> dict[str, float]:
        return {**asdict(self), "scaling": self.scaling}

    def in_words(self) -> str:
        """Return which of the two finishes first, as two sentences."""
        each = f"On {self.gpus} GPUs, a cell on each takes {in_hours(self.a_cell_each)} hours in all."
        if self.scaling > 0.99:  # as many cells as GPUs, or a multiple, of one length
            return f"{each} One cell at a time on all of them (--processes {self.gpus}) takes longer."
        return (
            f"{each} One cell at a time on all of them (--processes {self.gpus}) takes at least "
            f"{in_hours(self.one_on_all)}, and finishes first above {self.scaling:.0%} of linear scaling."
        )


def on_gpus(plan: Plan, table: Sequence[Mapping[str, Any]], gpus: int) -> OnGpus:
    """Return what `gpus` GPUs take for the `device_hours` of the rows of a plan. Raises UserError: they take none."""
    if not any(row["device_hours"] for row in table):
        raise UserError(f"--gpus {gpus}: no row of this suite trains or evaluates, so there are no hours; leave it out")
    hours = {row["row"]: (row["device_hours"] - row["shared_hours"]) / row["cells"] for row in table}
    waves: dict[tuple[bool, ...], list[float]] = {}  # each after all that its cells may begin with or read
    for cell in plan.cells:
        wave = (cell.cell.evaluate is not None, bool(cell.sources), cell.trunk is not None)
        waves.setdefault(wave, []).append(hours[cell.row])
    return OnGpus(
        gpus, sum(_makespan(wave, gpus) for wave in waves.values()), math.fsum(map(math.fsum, waves.values())) / gpus
    )


def _makespan(hours: Iterable[float], gpus: int) -> float:
    """When the last of some tasks is done, of which the longest begins first wherever a GPU is free."""
    longest_first = sorted(hours, reverse=True)
    busy_until = [0.0] * max(1, min(gpus, len(longest_first)))
    for task in longest_first:
        heapq.heapreplace(busy_until, busy_until[0] + task)
    return max(busy_until)


@dataclass(frozen=True)
class WithinBudget:
    """The rows that fit into `budget` device-hours, and take `device_hours`; the others do not fit any more."""

    budget: float
    device_hours: float
    rows: list[str]
    left_out: list[str]

    def in_words(self) -> str:
        """Return which rows to run, as a sentence or two."""
        if not self.rows:
            return f"No row fits into {in_hours(self.budget)} device-hours."
        enough = f"{in_hours(self.budget)} device-hours are enough for"
        taken = f"which take {in_hours(self.device_hours)}"
        if not self.left_out:
            return f"{enough} all rows, {taken}."
        rows, others = shlex.quote(",".join(self.rows)), ", ".join(self.left_out)
        return f"{enough} --rows {rows}, {taken}. They are not enough for {others}."


def within_budget(
    plan: Plan, table: Sequence[Mapping[str, Any]], budget: float, of_tuning: Mapping[str, float]
) -> WithinBudget:
    """Return the rows that fit into so many device-hours, taken in the order of the suite.

    A row comes with those that it cannot do without: whose weights it reads, and to whose MACs it trains.

    Args:
        of_tuning: hours of each training that chooses a learning rate, by cell.
    """
    of_row = {row["row"]: row for row in table}
    row_of = {cell.id: cell.row for cell in plan.cells}
    trunks = {cell.row: row_of[cell.trunk.cell] for cell in plan.cells if cell.trunk}

    def taken(rows: Collection[str]) -> float:
        """Hours of some rows and of what chooses their learning rates; what two of them share counts once."""
        of_study = math.fsum(of_row[row]["device_hours"] - of_row[row]["tuning_hours"] for row in rows)
        shared = math.fsum(of_row[row]["shared_hours"] for row in rows if trunks.get(row) in rows)
        chosen_by = plan.tuning_cells(row for row in plan.tuning if row in rows)
        return of_study - shared + math.fsum(of_tuning[cell.id] for cell in chosen_by)

    chosen: set[str] = set()
    for row, cells in plan.rows.items():
        needed = {cell.row for cell in plan.chosen([row])}
        own_budget = cells[0].cell.training.budget
        if own_budget is not None:
            needed.add(own_budget.macs_of)
        if taken(chosen | needed) <= budget:
            chosen |= needed
    rows = [row for row in plan.rows if row in chosen]
    left_out = [row for row in plan.rows if row not in chosen]
    return WithinBudget(budget, taken(chosen), rows, left_out)


def hours_of(text: str) -> float:
    """Return the hours that `--budget` states, such as 200 or 200h. Raises UserError."""
    try:
        hours = float(text.removesuffix("h"))
    except ValueError:
        hours = math.nan
    if not 0 < hours < math.inf:
        raise UserError(f"--budget {text}: must be a finite number of device-hours above 0, such as 200h")
    return hours
