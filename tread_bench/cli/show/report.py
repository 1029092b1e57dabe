"""`report`: the comparison of a run, and where its page is."""

from __future__ import annotations

import json

import typer

from tread_bench.cli.show.comparison import print_comparison
from tread_bench.services.decisions import decisions_of, hypothesis_of
from tread_bench.services.report import Drawn


def show_report(drawn: Drawn, as_json: bool) -> None:
    """Print the comparison and the path of the page; with JSON, what was decided beside the path."""
    planned, is_smoke = drawn.plan.planned, drawn.plan.smoke
    if as_json:
        document = {
            "page": drawn.page,
            "decision": decisions_of(drawn.records, planned, is_smoke),
            "hypothesis": hypothesis_of(drawn.records, planned, is_smoke, drawn.plan.registered),
        }
        typer.echo(json.dumps(document, indent=2))
        return
    print_comparison(drawn.records, planned, is_smoke, drawn.plan.stand_ins, drawn.plan.registered)
    typer.echo(drawn.page)
