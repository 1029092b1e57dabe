"""The page of `tread-bench evaluate`: a set of images beside its reference, and what was measured of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tread_bench.core.stored.evaluations import EvaluatedFigure, SetEvaluation, by_reason
from tread_bench.reports.figures.draw import Figure, draw
from tread_bench.reports.figures.picture import Picture
from tread_bench.reports.figures.style import row_key, theme
from tread_bench.reports.page.document import SMOOTH, write_page
from tread_bench.reports.rows.row import by_key
from tread_bench.reports.text.numbers import decimals, names, number


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The first images of a set.

    Args:
        png: a PNG of them.
        images: how many it shows.
        side: the longer side of one in the grid, in pixels.
    """

    png: bytes
    images: int
    side: int


def write_evaluation_page(evaluation: SetEvaluation, samples: Grid | None, reference: Grid | None, out: Path) -> None:
    """Write index.html and figures/*.svg into `out`, each atomically.

    Args:
        samples: their first images; None: they cannot be shown.
        reference: the same; None also for a reference that is statistics alone.

    Raises:
        OutputError: what would be replaced is a link.
    """
    drawn = pictures_of(evaluation)
    context: dict[str, Any] = {
        "name": f"{evaluation.samples.name} against {evaluation.reference.name}",
        "evaluation": evaluation,
        "sentences": sentences(evaluation),
        "cautions": cautions(evaluation),
        "value_text": value_text,
        "interval_text": interval_text,
        "several": len({row.network for row in evaluation.rows}) > 1,
        "refused": by_reason(evaluation.refused),
        "sets": [("Samples", evaluation.samples, samples), ("Reference", evaluation.reference, reference)],
        "smooth": SMOOTH,
        "pictures": drawn,
    }
    write_page(out, "evaluation.html.j2", drawn, **context)


def pictures_of(evaluation: SetEvaluation) -> list[Picture]:
    """Return a picture of every fit that a figure was extrapolated from, in the order of the rows."""
    several = len(evaluation.networks) > 1  # with figures
    with theme():
        fits = [_fit(row, f"{row.title}, {row.network}" if several else row.title) for row in evaluation.measured]
        return [picture for fit in fits if (picture := draw(fit))]


def _fit(row: EvaluatedFigure, title: str) -> Figure:
    """The figure of subsets over 1 / images, and on the left what it extrapolates to for infinitely many."""
    points: list[tuple[object, ...]] = [
        (title, title, 1 / point.images, point.value, None, None, f"{point.images:,}") for point in row.points
    ]
    if points:
        points.append((title, title, 0.0, row.value or 0.0, row.low, row.high, "∞, extrapolated"))
    columns = ["row", "name", "share", "value", "low", "high", "images"]
    return Figure(
        name=f"fit-{row.figure}-{row_key(row.network)}",
        title=f"Fit of {title}",
        caption="The figure of subsets of the samples is biased by an amount in proportion to 1 / images. The line "
        "through them is extrapolated to infinitely many images, on the left.",
        lines=pd.DataFrame(points, columns=columns),
        x="share",
        y="value",
        low="low",
        high="high",
        extra={"images": "images"},
        titles={"share": "1 / images", "value": row.title.rstrip("∞")},
    )  # fmt: skip


def value_text(row: EvaluatedFigure) -> str:
    """Return the value with four significant digits."""
    return number(row.value, decimals([row.value]))


def interval_text(row: EvaluatedFigure) -> str:
    """Return the interval as precise as the value; empty where there is none."""
    if row.low is None:
        return ""
    places = decimals([row.value])
    return f"{number(row.low, places)} to {number(row.high, places)}"


def sentences(evaluation: SetEvaluation) -> list[str]:
    """Return the figures of each network in one sentence, and those of images alone."""
    by_network = by_key(evaluation.measured, lambda row: row.network)
    found = []
    for network in (*(one.name for one in evaluation.networks), ""):
        if rows := by_network.get(network):
            values = names(f"{row.title} {value_text(row)}" for row in rows)
            found.append(f"{network or 'Without a feature network'}: {values}.")
    return found


def cautions(evaluation: SetEvaluation) -> list[str]:
    """Return what a reader must know before comparing figures, each warning once."""
    of_rows = (warning for row in evaluation.measured for warning in row.warnings)
    return [*dict.fromkeys([*evaluation.warnings, *of_rows])]
