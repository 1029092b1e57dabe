"""The main columns of a comparison, where there is room for few: in a terminal, in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby

from tread_bench.reports.differences import Differences
from tread_bench.reports.frame import further_figures
from tread_bench.reports.rows.row import Row
from tread_bench.reports.tables.tables import Entry
from tread_bench.reports.tables.view import comparison_view

_COMPARED = {  # of the page's table -> how they are headed in 100 characters
    "Δ FID, equal MACs": "Δ FID at\nequal MACs",
    "Δ FID, equal time": "Δ FID at\nequal time",
    "Δ FID": "Δ FID at equal\niterations",
    "Speed-up": "Speed-up",
    "GMACs": "GMACs",
}
ShortTable = tuple[list[str], list[tuple[str, list[Entry]]]]  # headers; a row's name and what it shows


def short_tables(rows: Sequence[Row], compared: Differences) -> list[ShortTable]:
    """Return a table for each group of rows that may be ranked together; figures of added metrics are columns, too.

    FID itself is shown where no row is compared with another, and the MACs of a sample where no row trains.
    """
    added = {figure.title: figure.title for figure in further_figures(chain.from_iterable(row.records for row in rows))}
    tables = []
    for _, members in groupby(rows, key=lambda row: row.group):
        view = comparison_view(list(members), compared)
        titles = [title for title, _ in view.headers]
        fid = {} if "Δ FID" in titles else {"FID": "FID"}
        sampling = {} if "GMACs" in titles else {"Sampling GMACs": "Sampling\nGMACs"}
        wanted = fid | _COMPARED | sampling | added
        shown = {titles.index(title): name for title, name in wanted.items() if title in titles}
        lines = [(row.label, [entries[place] for place in shown]) for row, entries in view.rows]
        tables.append(([*shown.values()], lines))
    return tables
