"""Trainings that differ in their length alone, and decay at their end: they share the steps before. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.guidance import iteration_at
from tread_bench.core.numbers.schedule import decay_steps

_OF_ITS_LENGTH = {"iterations", "budget", "decay", "snapshots", "checkpoint_every"}  # keys of a training


class Branch(NamedTuple):
    """The row whose training a shorter one has the first `iteration` steps of."""

    trunk: str
    iteration: int


def branches(cells: Mapping[str, Cell]) -> dict[str, Branch]:
    """Return the rows that branch off a longer one, of cells by row.

    Of the rows that share steps, the one whose decay begins last is the trunk of all others.
    """
    found = {}
    for rows in _alike(cells):
        trunk = max(rows, key=lambda row: _before_decay(cells[row]))
        for row in rows:
            shared = _shared(cells[row])
            if row != trunk and shared > 0 and not cells[row].schedule.depends_on_length:
                found[row] = Branch(trunk, shared)
    return found


def shortest(cells: Mapping[str, Cell]) -> dict[str, str]:
    """Return the shortest of the rows that differ from a row in their length alone, of cells by row; of a row without
    any, the row itself.
    """
    found = {row: row for row in cells}
    for rows in _alike(cells):
        found |= dict.fromkeys(rows, min(rows, key=lambda row: cells[row].training.iterations))
    return found


def unshared(cells: Mapping[str, Cell]) -> Iterator[tuple[str, str]]:
    """Yield rows that would share steps with a longer one but for their schedule, which is in shares of the length;
    each with what is wrong.
    """
    for rows in _alike(cells):
        longest = max(rows, key=lambda row: cells[row].training.iterations)
        for row in rows:
            cell, last = cells[row], cells[longest].training.iterations
            if cell.schedule.depends_on_length and cell.training.iterations < last:
                decay = cell.training.decay.name
                yield (
                    row,
                    f"row {row!r} would share its steps before the decay with row {longest!r}, but schedule is in "
                    f"shares of the length, which are other steps of {cell.training.iterations} iterations than of "
                    f"{last}: leave schedule out, or choose another decay than {decay}, with which each trains alone",
                )


def _alike(cells: Mapping[str, Cell]) -> Iterable[list[str]]:
    """Rows with the same training but for its length, several at a time."""
    found: dict[str, list[str]] = {}
    for row, cell in cells.items():
        if cell.trains and 0 < cell.training.decay.span < 1:
            own: Any = {"metrics": True, "sampling": True, "training": _OF_ITS_LENGTH}
            found.setdefault(cell.model_dump_json(exclude=own), []).append(row)
    return [rows for rows in found.values() if len(rows) > 1]


def _before_decay(cell: Cell) -> int:
    return cell.training.iterations - decay_steps(cell.training.iterations, cell.training.decay)


def _shared(cell: Cell) -> int:
    """How many steps a cell can have from another training: those before its decay, and before what it measures or
    keeps itself.
    """
    last = cell.training.iterations
    training = cell.training
    stops = [*cell.metrics.iterations(last), *(iteration_at(moment, last) for moment in training.snapshots)]
    stops += training.averages.saved_at(last) if training.averages else []
    return min(_before_decay(cell), min(stops) - 1)
