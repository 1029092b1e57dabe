"""`report`: the comparison of a run, and where its page is."""

from __future__ import annotations

import json

import typer

from tread_bench.cli.show.comparison import print_comparison
from tread_bench.services.decisions import decisions_of
from tread_bench.services.report import Drawn


def show_report(drawn: Drawn, as_json: bool) -> None:
    """Print the comparison and the path of the page; with JSON, the decisions beside the path."""
    planned, is_smoke = drawn.plan.planned, drawn.plan.smoke
    if as_json:
        decided = decisions_of(drawn.records, planned, is_smoke)
        typer.echo(json.dumps({"page": drawn.page, "decision": decided}, indent=2))
        return
    print_comparison(drawn.records, planned, is_smoke, drawn.plan.stand_ins, drawn.plan.registered)
    typer.echo(drawn.page)
