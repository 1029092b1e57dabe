"""The comparison of a run in the terminal: the main columns of its table, and the decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Column, Table

from tread_bench.cli.console import stdout_console
from tread_bench.services.decisions import decisions_of, hypothesis_of

if TYPE_CHECKING:
    from tread_bench.reports.study import Study


def print_comparison(study: Study, planned: int, stand_ins: Sequence[str] = ()) -> None:
    """Print a table for each group of rows that may be ranked together, and the decision of each comparison.

    The answer to what was stated before the run comes last.

    Args:
        planned: the number of the run's cells.
        stand_ins: what of a smoke run is random.
    """
    from tread_bench.reports.cautions import of_smoke_run
    from tread_bench.reports.comparison import short_tables

    # A table for each group of rows.
    console = stdout_console()
    if study.is_smoke:
        console.print(f"SMOKE RUN. {of_smoke_run(stand_ins)}")
    for headers, lines in short_tables(study.rows):
        table = Table(Column("row", no_wrap=True), *headers, title="smoke run" if study.is_smoke else None)
        for name, entries in lines:
            table.add_row(name, *(f"{entry.text}\n{entry.below}".strip() for entry in entries))
        console.print(table)

    # The decisions, and how many seeds would settle those that are open, unless it was stated when to stop.
    for decision in decisions_of(study, planned):
        whose = f"{decision['name']}: " if decision["name"] else ""
        console.print(f"{whose}{decision['sentence']}", style="bold")
        if decision["choice"] == "undecided" and decision["seeds_to_decide"] and study.stated is None:
            console.print(f"Add seeds to this run: --set seeds={decision['seeds_to_decide']}")

    # What was stated before the run.
    if answered := hypothesis_of(study, planned):
        console.print(f"Hypothesis: {answered['claim']}")
        for sentence in answered["sentences"]:
            console.print(sentence, style="bold")
