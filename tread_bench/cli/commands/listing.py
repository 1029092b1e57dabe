"""The command `list`."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from tread_bench.cli.options import JsonOption

Listed = Literal[
    "backbones",
    "mixers",
    "suites",
    "datasets",
    "objectives",
    "samplers",
    "selectors",
    "methods",
    "losses",
    "guidance",
    "metrics",
    "extractors",
    "text_encoders",
    "kernels",
    "schema",
]


def list_(what: Annotated[Listed, typer.Argument(help="what to list")], as_json: JsonOption = False) -> None:
    """List what can be named in a suite; `schema` is the JSON Schema of a suite file, for editors."""
    from rich.table import Table

    from tread_bench.cli.show.console import stdout_console
    from tread_bench.services.listing import LISTS
    from tread_bench.suite.schema import json_schema

    if what == "schema":
        typer.echo(json.dumps(json_schema(), indent=2))
        return
    rows = LISTS[what]()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(*rows[0]) if rows else Table(what)
    for row in rows:
        table.add_row(*map(_shown, row.values()))
    stdout_console().print(table)


def _shown(value: object) -> str:
    if value is None:
        return "—"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
