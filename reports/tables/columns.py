"""The columns of results.csv, in order. The page and docs/methods/results-csv.md show the same text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tread_bench.core.config.metrics import standard_metrics
from tread_bench.core.describe.metrics import Figure, known_figures
from tread_bench.core.describe.routes import parse_routes
from tread_bench.core.stored.columns import AFTER_FIGURES, BEFORE_FIGURES, Column, columns_of_route
from tread_bench.core.stored.records import Record


def _column(figure: Figure) -> Column:
    return Column(figure.name, figure.unit, figure.definition)


_STANDARD = (_column(figure) for metric in standard_metrics() for figure in metric.figures)
COLUMNS = (*BEFORE_FIGURES, *_STANDARD, *AFTER_FIGURES)


def further_figures(records: Iterable[Record]) -> list[Figure]:
    """Return the figures of metrics that suites added, by name; of a metric that is not installed here, the name
    alone.
    """
    known = known_figures()
    measured = [evaluation.figures for record in records for evaluation in record.evaluations]
    return [known.get(name) or Figure.unknown(name) for name in sorted(set().union(*measured))]


def columns_of(records: Sequence[Record]) -> tuple[Column, ...]:
    """`COLUMNS`, and behind them those of further routes and of metrics that suites added."""
    most_routes = max((len(parse_routes(record.routes)) for record in records), default=0)
    of_routes = (column for number in range(2, most_routes + 1) for column in columns_of_route(number))
    return (*COLUMNS, *of_routes, *map(_column, further_figures(records)))


def title_of(name: str) -> str:
    """Return what tables for people call a figure of a metric, or the validation loss."""
    return "Validation loss" if name == "validation_loss" else known_figures()[name].title
