"""Whether to route, of the records of a run: what `run`, `report` and the Python interface say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tread_bench.core.stored.records import Record


def decisions_of(records: Sequence[Record], planned: int, is_smoke: bool) -> list[dict[str, Any]]:
    """Return the decision of each comparison of routes; `planned` is the number of the run's cells."""
    from tread_bench.reports.rows.comparison import comparison
    from tread_bench.reports.text.decision import documents

    return documents(comparison(records, is_smoke), is_over=len(records) >= planned)
