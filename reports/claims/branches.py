"""What trainings share whose beginning is the same, and what they cost together."""

from __future__ import annotations

from collections.abc import Sequence

from tread_bench.core.stored.records import Record
from tread_bench.reports.rows import requested
from tread_bench.reports.text.sentences import say


def cost(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Return what the trainings have cost together, each step once, as a fact of a page; none where they share none."""
    trained = [record for record in records if not requested.is_evaluated_only(record)]
    branches = sum(record.shared_iterations > 0 for record in trained)
    if not branches:
        return []
    macs, own = sum(map(_macs, trained)), sum(map(own_macs, trained))
    return [("shared steps", say("branches", "cost", branches=branches, macs=macs, own=own))]


def own_macs(record: Record) -> float:
    """Return the MACs of the steps that a cell made itself; all steps of one that shares some cost the same."""
    if not record.shared_iterations or record.last is None:
        return _macs(record)
    return _macs(record) * (1 - record.shared_iterations / record.last.iteration)


def _macs(record: Record) -> float:
    return record.last.training_macs or 0.0 if record.last else 0.0
