"""`report`: the decisions of a run, and where its page is."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from tread_bench.services.decisions import read_decisions


def show_report(source: Path, page: str, as_json: bool) -> None:
    """Print the path of the page; with JSON, the decisions beside it."""
    if as_json:
        typer.echo(json.dumps({"page": page, "decision": read_decisions(source)}, indent=2))
        return
    typer.echo(page)
