"""`list`: what can be named in a suite, as a table."""

from __future__ import annotations

import json

import typer
from rich.table import Table

from tread_bench.cli.show.console import stdout_console
from tread_bench.services.listing import LISTS
from tread_bench.suite.schema import json_schema


def show_list(what: str, as_json: bool) -> None:
    """Print one kind of names, with what is known about each."""
    rows = LISTS[what]()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(*rows[0]) if rows else Table(what)
    for row in rows:
        table.add_row(*map(_shown, row.values()))
    stdout_console().print(table)


def show_schema() -> None:
    """Print the JSON Schema of a suite file."""
    typer.echo(json.dumps(json_schema(), indent=2))


def _shown(value: object) -> str:
    if value is None:
        return "—"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
