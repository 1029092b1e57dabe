"""The command `doctor`."""

from __future__ import annotations

import json
from typing import Any

import typer

from tread_bench.cli.options import JsonOption


def doctor(as_json: JsonOption = False) -> None:
    """Show what this machine has: device, kernels, versions, weights."""
    from rich.table import Table

    from tread_bench.cli.show.console import stdout_console
    from tread_bench.services.doctor import examine

    found = examine()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table(show_header=False)
    for key, value in found.items():
        for name, text in value.items() if isinstance(value, dict) else {"": value}.items():
            table.add_row(f"{key} {name}".strip(), _text(text))
    stdout_console().print(table)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{k} {_text(v)}" for k, v in value.items())
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)
