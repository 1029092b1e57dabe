"""Whether to route, and the answer to a stated hypothesis: what `run`, `report` and the Python interface say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tread_bench.core.stored.documents import Registered

if TYPE_CHECKING:
    from tread_bench.reports.study import Study


def decisions_of(study: Study, planned: int) -> list[dict[str, Any]]:
    """Return the decision of each comparison of routes; `planned` is the number of the run's cells."""
    from tread_bench.reports.text.decision import documents

    return documents(study.decisions, study.is_over(planned))


def hypothesis_of(study: Study, planned: int, stated: Registered | None) -> dict[str, Any] | None:
    """Return what was stated before the run, with its answer for each number of tokens and each route.

    None where nothing was stated, and for a smoke run. docs/methods/onset.md has the rule.
    """
    if stated is None or study.is_smoke:
        return None
    from tread_bench.reports.questions import onset

    is_over = study.is_over(planned)
    panels = onset.panels(study.records, stated)
    return {
        "claim": stated.hypothesis.claim,
        "sha256": stated.sha256,
        "sentences": onset.statements(panels, study.records, stated, is_over),
        "answers": onset.answers(panels, study.records, stated, is_over),
    }
