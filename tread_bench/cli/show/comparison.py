"""The comparison of a run in the terminal: the main columns of its table, and the decisions."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Column, Table

from tread_bench.cli.show.console import stdout_console
from tread_bench.core.stored.records import Record
from tread_bench.services.decisions import decisions_of


def print_comparison(
    records: Sequence[Record], planned: int, is_smoke: bool = False, stand_ins: Sequence[str] = ()
) -> None:
    """Print a table for each group of rows that may be ranked together, and the decision of each comparison.

    Args:
        planned: the number of the run's cells.
        stand_ins: what of a smoke run is random.
    """
    from tread_bench.reports.claims.cautions import of_smoke_run
    from tread_bench.reports.tables.short import short_tables

    console = stdout_console()
    if is_smoke:
        console.print(f"SMOKE RUN. {of_smoke_run(stand_ins)}")
    for headers, rows in short_tables(records, is_smoke):
        table = Table(Column("row", no_wrap=True), *headers, title="smoke run" if is_smoke else None)
        for name, entries in rows:
            table.add_row(name, *(f"{entry.text}\n{entry.below}".strip() for entry in entries))
        console.print(table)
    for decision in decisions_of(records, planned, is_smoke):
        console.print(decision["sentence"], style="bold")
