"""How the rows of a study got their learning rates, and whether these may be called tuned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set

from tread_bench.core.config.training import NARROWEST, WIDEST
from tread_bench.core.numbers.tuning import Best, extended
from tread_bench.core.stored.records import Record, Tuning
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
    width_edges = [row.short_label for row in chosen if row.is_width_at_edge]
    scale_edges = [row.short_label for row in chosen if row.is_scale_at_edge]
    return say(
        "tuning",
        "chosen",
        tuning=chosen[0].tuning,
        all=len(chosen),
        edges=edges,
        width_edges=width_edges,
        scale_edges=scale_edges,
    )


def in_short(rows: Sequence[Row]) -> str:
    """Return the same in a few words, for a decision."""
    chosen = [row for row in rows if row.tuning is not None]
    tuning = chosen[0].tuning if chosen else None
    edges = [row.short_label for row in chosen if row.is_untuned]
    return say(
        "tuning", "in_short", tuning=tuning, all=len(chosen), decays=bool(requested.decay(rows[0].first)), edges=edges
    )


def of_row(row: Row) -> str:
    """Return a row's learning rate, the width of its average and its guidance scale, and how they were chosen; "" where
    the suite gives them.
    """
    tuning = row.tuning
    if tuning is None or tuning.best is None:
        return ""
    said = [say("tuning", "of_row", rate=tuning.best.value, count=len(tuning.candidates), edge=row.is_untuned)]
    if width := tuning.best_width:
        count, edge = len(tuning.widths), row.is_width_at_edge
        said.append(say("tuning", "width_of_row", width=width.value, count=count, edge=edge))
    if scale := tuning.best_scale:
        count, edge = len(tuning.scales), row.is_scale_at_edge
        said.append(say("tuning", "scale_of_row", scale=scale.value, count=count, edge=edge))
    return "; ".join(said)


def untuned(rows: Sequence[Row]) -> str:
    """Return a caution on rows whose best candidate lies at an edge, with what extends the range; "" without any."""
    at_edge = [row for row in rows if row.is_untuned]
    tried = {one.learning_rate for row in at_edge if row.tuning for one in row.tuning.candidates}
    return _at_edge("untuned", rows, at_edge, tried, lambda tuning: tuning.best)


def moved(rows: Sequence[Row]) -> str:
    """Return a caution on rows whose best candidate is another one at their own length; "" without any."""
    found = [row.label for row in rows if row.tuning is not None and row.tuning.has_moved]
    return say("tuning", "moved", rows=found) if found else ""


def widths_at_edge(rows: Sequence[Row]) -> str:
    """Return a caution on rows whose best width lies at an edge, with what extends the range; "" without any."""
    at_edge = [row for row in rows if row.is_width_at_edge]
    tried = {one.width for row in at_edge for one in row.widths}
    return _at_edge("width_at_edge", rows, at_edge, tried, lambda tuning: tuning.best_width, NARROWEST, WIDEST)


def scales_at_edge(rows: Sequence[Row]) -> str:
    """Return a caution on rows whose best guidance scale lies at an edge, with what extends the range; "" without
    any.
    """
    at_edge = [row for row in rows if row.is_scale_at_edge]
    tried = {one.scale for row in at_edge for one in row.scales}
    return _at_edge("scale_at_edge", rows, at_edge, tried, lambda tuning: tuning.best_scale)


def luck(rows: Sequence[Row]) -> str:
    """Return a caution where a rate may be the best one by luck, which no interval over the study's seeds has; "" where
    whole trainings on as many seeds chose it.
    """
    for row in rows:
        tuning = row.tuning
        if tuning is not None and (len(tuning.seeds) < len(row.records) or tuning.share < 1 or tuning.shortest):
            return say("tuning", "luck", tuning=tuning, seeds=len(row.records))
    return ""


def _at_edge(
    macro: str,
    rows: Sequence[Row],
    at_edge: Sequence[Row],
    tried: Set[float],
    best_of: Callable[[Tuning], Best | None],
    least: float = 0.0,
    most: float = math.inf,
) -> str:
    """A caution on those of the rows whose best one lies at an edge of what was tried, with what extends it within the
    bounds; "" without any.
    """
    if not at_edge:
        return ""
    best = {found.value for row in at_edge if row.tuning and (found := best_of(row.tuning))}
    wider = [one for one in _wider(tried, best) if least <= one <= most]
    return say("tuning", macro, rows=[row.label for row in at_edge], all=_tuned(rows), wider=wider)


def _wider(tried: Set[float], best: Set[float]) -> list[float]:
    """Return the candidates with more beyond the edges at which the best ones lie."""
    ordered = sorted(tried)
    middle = ordered[len(ordered) // 2]
    return extended(ordered, below=min(best) < middle, above=max(best) >= middle)


def _tuned(rows: Sequence[Row]) -> int:
    """The number of rows whose learning rate was chosen."""
    return sum(row.tuning is not None for row in rows)


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
