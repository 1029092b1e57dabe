"""How the rows of a study got their learning rates, and whether these may be called tuned."""

from __future__ import annotations

from collections.abc import Sequence, Set

from tread_bench.core.numbers.tuning import extended
from tread_bench.core.stored.records import Record
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.sentences import say


def summary(rows: Sequence[Row]) -> str:
    """Return how the rows that are trained got their learning rates, in a sentence or two; "" where none is."""
    trained = [row for row in rows if requested.iterations(row.first) and not requested.is_evaluated_only(row.first)]
    if not trained:
        return ""
    chosen = [row for row in trained if row.tuning is not None]
    if not chosen:
        rates = sorted({requested.training(row.first, "learning_rate") for row in trained} - {None})
        return say("tuning", "given", rates=rates, decays=bool(requested.decay(trained[0].first)))
    edges = [row.short_label for row in chosen if row.is_untuned]
    return say("tuning", "chosen", tuning=chosen[0].tuning, all=len(chosen), edges=edges)


def in_short(rows: Sequence[Row]) -> str:
    """Return the same in a few words, for a decision."""
    chosen = [row for row in rows if row.tuning is not None]
    tuning = chosen[0].tuning if chosen else None
    edges = [row.short_label for row in chosen if row.is_untuned]
    return say(
        "tuning", "in_short", tuning=tuning, all=len(chosen), decays=bool(requested.decay(rows[0].first)), edges=edges
    )


def of_row(row: Row) -> str:
    """Return a row's learning rate and how it was chosen; "" where the suite gives it."""
    tuning = row.tuning
    if tuning is None or tuning.best is None:
        return ""
    return say("tuning", "of_row", rate=tuning.best.value, count=len(tuning.candidates), edge=row.is_untuned)


def untuned(rows: Sequence[Row]) -> str:
    """Return a caution on rows whose best candidate lies at an edge, with what extends the range; "" without any."""
    at_edge = [row for row in rows if row.is_untuned]
    if not at_edge:
        return ""
    tried = {one.learning_rate for row in at_edge if row.tuning for one in row.tuning.candidates}
    best = {row.tuning.best.value for row in at_edge if row.tuning and row.tuning.best}
    tuned = sum(row.tuning is not None for row in rows)
    return say("tuning", "untuned", rows=[row.label for row in at_edge], all=tuned, wider=_wider(tried, best))


def moved(rows: Sequence[Row]) -> str:
    """Return a caution on rows whose best candidate is another one at their own length; "" without any."""
    found = [row.label for row in rows if row.tuning is not None and row.tuning.has_moved]
    return say("tuning", "moved", rows=found) if found else ""


def luck(rows: Sequence[Row]) -> str:
    """Return a caution where a rate may be the best one by luck, which no interval over the study's seeds has; "" where
    whole trainings on as many seeds chose it.
    """
    for row in rows:
        tuning = row.tuning
        if tuning is not None and (len(tuning.seeds) < len(row.records) or tuning.share < 1 or tuning.shortest):
            return say("tuning", "luck", tuning=tuning, seeds=len(row.records))
    return ""


def _wider(tried: Set[float], best: Set[float]) -> list[float]:
    """Return the candidates with more beyond the edges at which the best ones lie."""
    ordered = sorted(tried)
    middle = ordered[len(ordered) // 2]
    return extended(ordered, below=min(best) < middle, above=max(best) >= middle)


def cost(candidates: Sequence[Record], study: Sequence[Record]) -> list[tuple[str, str]]:
    """Return what choosing the learning rates has cost beside the study, as a fact of a page; none without tuning."""
    if not candidates:
        return []
    tuning, trained = (sum(map(_training_macs, records)) for records in (candidates, study))
    share = tuning / (tuning + trained) if tuning + trained else 0.0
    failed = sum(record.status == "failed" for record in candidates)
    return [("tuning", say("tuning", "cost", cells=len(candidates), macs=tuning, share=share, failed=failed))]


def _training_macs(record: Record) -> float:
    return record.last.training_macs or 0.0 if record.last else 0.0
