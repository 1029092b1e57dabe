"""`evaluate`: the figures as a table."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.table import Table

from tread_bench.cell.numerics import keep_freed_memory
from tread_bench.cli.show.console import stdout_console
from tread_bench.core.stored.evaluations import SetEvaluation, by_reason
from tread_bench.reports.page.evaluation import cautions, interval_text, value_text
from tread_bench.reports.text.numbers import DASH
from tread_bench.services.evaluate import EvaluateRequest, evaluate_request

REFUSED = 1  # exit status: something that was named has no figure


def show_evaluation(request: EvaluateRequest, as_json: bool) -> int:
    """Evaluate, write the document and its page, print the figures; the exit status. Raises UserError."""
    keep_freed_memory()
    found = evaluate_request(request, is_kept=True)
    assert found.out is not None
    if as_json:
        typer.echo(json.dumps(found.evaluation.model_dump(mode="json"), indent=2))
    else:
        _print(found.evaluation, found.out)
    return 0 if found.is_complete else REFUSED


def _print(evaluation: SetEvaluation, out: Path) -> None:
    """The figures as a table, cautions, what was refused, and where the page is."""

    table = Table("figure", "feature network", "value", "95 % interval")
    for row in evaluation.measured:
        table.add_row(row.title, row.network or DASH, value_text(row), interval_text(row))
    stdout_console().print(table)
    for caution in cautions(evaluation):
        typer.echo(f"caution: {caution}")
    for refusal in by_reason(evaluation.refused):
        typer.echo(f"not measured: {refusal}")
    typer.echo(out / "index.html")
