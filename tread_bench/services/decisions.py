"""Whether to route, and the answer to a stated hypothesis: what `run`, `report` and the Python interface say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tread_bench.core.stored.documents import Registered
from tread_bench.core.stored.records import Record, of_study


def decisions_of(records: Sequence[Record], planned: int, is_smoke: bool) -> list[dict[str, Any]]:
    """Return the decision of each comparison of routes; `planned` is the number of the run's cells."""
    from tread_bench.reports.decision import decisions
    from tread_bench.reports.differences import Differences
    from tread_bench.reports.frame import results_frame
    from tread_bench.reports.rows.comparison import comparison
    from tread_bench.reports.text.decision import documents

    compared = Differences(results_frame(records, is_smoke))
    return documents(decisions(comparison(records, is_smoke), compared), is_over=len(records) >= planned)


def hypothesis_of(
    records: Sequence[Record], planned: int, is_smoke: bool, stated: Registered | None
) -> dict[str, Any] | None:
    """Return what was stated before the run, with its answer for each number of tokens and each route.

    None where nothing was stated, and for a smoke run. docs/methods/onset.md has the rule.
    """
    if stated is None or is_smoke:
        return None
    from tread_bench.reports.questions import onset

    studied, is_over = of_study(records), len(records) >= planned
    panels = onset.panels(studied, stated)
    return {
        "claim": stated.hypothesis.claim,
        "sha256": stated.sha256,
        "sentences": onset.statements(panels, studied, stated, is_over),
        "answers": onset.answers(panels, studied, stated, is_over),
    }
