"""Whether to route, and the answer to a stated hypothesis: what `run`, `report` and the Python interface say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tread_bench.reports.study import Study


def decisions_of(study: Study, planned: int) -> list[dict[str, Any]]:
    """Return the decision of each comparison of routes; `planned` is the number of the run's cells."""
    from tread_bench.reports.text.decision import documents

    return documents(study.decisions, study.is_over(planned))


def hypothesis_of(study: Study, planned: int) -> dict[str, Any] | None:
    """Return what was stated before the run, with its answer for each number of tokens and each route.

    None where nothing was stated, and for a smoke run. docs/methods/onset.md has the rule.
    """
    stated = study.stated
    if stated is None:
        return None
    from tread_bench.reports.questions import onset

    sentences, answers = onset.answered(study.onsets, study.records, stated, study.is_over(planned))
    return {"claim": stated.hypothesis.claim, "sha256": stated.sha256, "sentences": sentences, "answers": answers}
