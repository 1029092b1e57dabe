"""The command `schema`."""

from __future__ import annotations

import json

import typer


def schema() -> None:
    """Print the JSON Schema of a suite file, for editors."""
    from tread_bench.suite.schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
