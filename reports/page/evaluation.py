"""The page of `tread-bench evaluate`: a set of images beside its reference, and what was measured of it."""

from __future__ import annotations

from pathlib import Path

from tread_bench.core.stored.evaluations import EvaluatedFigure, SetEvaluation
from tread_bench.reports.page.document import SMOOTH, write_page
from tread_bench.reports.text.numbers import decimals, number


def write_evaluation_page(evaluation: SetEvaluation, samples: bytes, reference: bytes | None, out: Path) -> None:
    """Write index.html into `out`, atomically.

    Args:
        samples: PNG of their first images.
        reference: the same; None for a reference that is statistics alone.

    Raises:
        OutputError: what would be replaced is a link.
    """
    write_page(
        out,
        "evaluation.html.j2",
        (),
        name=f"{evaluation.samples.name} against {evaluation.reference.name}",
        evaluation=evaluation,
        value_text=value_text,
        interval_text=interval_text,
        sets=[("Samples", evaluation.samples, samples), ("Reference", evaluation.reference, reference)],
        smooth=SMOOTH,
    )


def value_text(row: EvaluatedFigure) -> str:
    """Return the value with four significant digits."""
    return number(row.value, decimals([row.value]))


def interval_text(row: EvaluatedFigure) -> str:
    """Return the interval as precise as the value; empty where there is none."""
    if row.low is None:
        return ""
    places = decimals([row.value])
    return f"{number(row.low, places)} to {number(row.high, places)}"
