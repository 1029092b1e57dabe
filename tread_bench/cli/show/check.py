"""`ci check` and `ci regress`: the findings as a table."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.table import Column, Table
from rich.text import Text

from tread_bench.cli.show.console import stdout_console
from tread_bench.regression.baseline.findings import Finding, Verdict
from tread_bench.regression.baseline.outputs import as_json as findings_as_json
from tread_bench.regression.baseline.outputs import headline
from tread_bench.services.check import Checked, Outputs, check_run

_STYLES = {Verdict.FAIL: "bold red", Verdict.INCONCLUSIVE: "yellow", Verdict.UNFIT: "yellow", Verdict.SKIPPED: "dim"}


def show_check(root: Path, baseline: Path, accept: bool, outputs: Outputs, as_json: bool = False) -> int:
    """Compare a run with a baseline, or make it the baseline, and print; the exit status. Raises UserError."""
    checked = check_run(root, baseline, accept, outputs)
    print_findings(checked, as_json)
    if accept:
        typer.echo(f"accepted {checked.accepted} cells: {baseline}", err=True)
    elif checked.status:
        typer.echo("--accept makes this run the new baseline", err=True)
    return checked.status


def print_findings(checked: Checked, as_json: bool) -> None:
    """Print the findings that did not pass, and a line about all."""
    if as_json:
        typer.echo(findings_as_json(checked.findings, checked.suite, checked.status))
        return
    others = [finding for finding in checked.findings if finding.verdict is not Verdict.PASS]
    if others:
        stdout_console().print(_table(others))
    if checked.findings:
        typer.echo(headline(checked.findings))


def _table(findings: list[Finding]) -> Table:
    table = Table(Column("cell"), "figure", "verdict", "accepted", "measured", "reason")
    for f in findings:
        texts = (f.cell, f"{f.kind}: {f.figure}", f.verdict.value, f.accepted, f.measured, f.reason)
        table.add_row(*(Text(text) for text in texts), style=_STYLES.get(f.verdict))
    return table
