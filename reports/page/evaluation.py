"""The page of `tread-bench evaluate`: a set of images beside its reference, and what was measured of it."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tread_bench.core.stored.evaluations import EvaluatedFigure, EvaluatedSet, SetEvaluation, by_reason
from tread_bench.reports.figures.evaluation import pictures_of
from tread_bench.reports.page.document import write_page
from tread_bench.reports.text.numbers import DASH, decimals, names, number, plural

SMOOTH = 32  # pixels from which an image is scaled smoothly; smaller ones show their pixels


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
        # What was found.
        "name": f"{evaluation.samples.name} against {evaluation.reference.name}",
        "sentences": sentences(evaluation),
        "cautions": cautions(evaluation),
        "facts": _facts(evaluation),
        "lines": [_line(row) for row in evaluation.measured],
        "several": len({row.network for row in evaluation.rows}) > 1,
        "refused": by_reason(evaluation.refused),
        # The sets, and the pictures of figures.
        "sets": [_shown("Samples", evaluation.samples, samples), _shown("Reference", evaluation.reference, reference)],
        "pictures": drawn,
        # How it was measured.
        "networks": evaluation.networks,
        "images_protocol": evaluation.images_protocol,
        "made": _made(evaluation),
    }
    write_page(out, "evaluation.html.j2", drawn, **context)


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
    found = []
    for network in evaluation.networks:
        rows = [row for row in evaluation.measured if row.network == network.name]
        if rows:
            values = names(f"{row.title} {value_text(row)}" for row in rows)
            found.append(f"{network.name}: {values}.")
    if alone := [row for row in evaluation.measured if not row.network]:
        found.append(f"Without a feature network: {names(f'{row.title} {value_text(row)}' for row in alone)}.")
    return found


def cautions(evaluation: SetEvaluation) -> list[str]:
    """Return what a reader must know before comparing figures, each warning once."""
    of_rows = (warning for row in evaluation.measured for warning in row.warnings)
    return [*dict.fromkeys([*evaluation.warnings, *of_rows])]


def _facts(evaluation: SetEvaluation) -> dict[str, str]:
    networks = names(network.name for network in evaluation.networks) or DASH
    return {
        "samples": _size(evaluation.samples),
        "reference": _size(evaluation.reference),
        "feature networks": networks,
        "protocol": evaluation.protocol,
        "device": evaluation.device,
        "version": evaluation.version,
    }


def _size(one: EvaluatedSet) -> str:
    """Such as "50,000 images, 3×256×256"."""
    parts = []
    if one.count is not None:
        parts.append(plural(one.count, "image"))
    if one.shape is not None:
        parts.append("×".join(map(str, one.shape)))
    if one.statistics:
        parts.append(f"stored statistics of {names(one.statistics)}")
    return ", ".join(parts) or "statistics"


def _line(row: EvaluatedFigure) -> dict[str, Any]:
    """A line of the table of figures."""
    better = {True: "lower is better", False: "higher is better", None: ""}[row.lower_is_better]
    return {
        "row": row,
        "value": value_text(row),
        "interval": interval_text(row),
        "better": better,
        "method": row.method or DASH,
    }


def _shown(title: str, one: EvaluatedSet, grid: Grid | None) -> dict[str, Any]:
    """A set as the page shows it: its first images, or why there are none."""
    about = [one.name, _size(one)]
    why = ""
    if grid is None:
        why = "This reference is statistics alone: it has no images." if one.shape is None else "Not shown."
    else:
        about.append(_of_grid(one, grid))
    return {
        "title": title,
        "about": about,
        "uri": f"data:image/png;base64,{base64.b64encode(grid.png).decode()}" if grid else "",
        "why": why,
        "is_smooth": grid is not None and grid.side >= SMOOTH,
    }


def _of_grid(one: EvaluatedSet, grid: Grid) -> str:
    scaled = one.shape is not None and grid.side < max(one.shape[1:])
    return f"the first {grid.images}" + (f", scaled to {grid.side} pixels" if scaled else "")


def _made(evaluation: SetEvaluation) -> dict[str, Any]:
    """How the figures were computed, apart from what their fingerprints are made of."""
    effects: Iterable[str] = (f"{one.name} {one.device_effect:.2g}" for one in evaluation.networks)
    return {
        "device": evaluation.device,
        "largest relative difference of features from those of the CPU": "; ".join(effects) or DASH,
        "images at a time": evaluation.batch,
        "seconds": number(evaluation.seconds, 1),
        "sha256 of the samples": evaluation.samples.sha256,
        "sha256 of the reference": evaluation.reference.sha256,
        **evaluation.versions,
    }
