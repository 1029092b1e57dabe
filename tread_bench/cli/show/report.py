"""`report`: the comparison of a run, and where its page is."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from tread_bench.cli.show.comparison import print_comparison
from tread_bench.runner.sources import read_run
from tread_bench.services.decisions import decisions_of


def show_report(source: Path, page: str, as_json: bool) -> None:
    """Print the comparison and the path of the page; with JSON, the decisions beside the path."""
    run = read_run(source)
    planned, is_smoke = len(run.plan.cells), run.plan.smoke
    if as_json:
        decided = decisions_of(run.records, planned, is_smoke)
        typer.echo(json.dumps({"page": page, "decision": decided}, indent=2))
        return
    print_comparison(run.records, planned, is_smoke, run.plan.stand_ins)
    typer.echo(page)
