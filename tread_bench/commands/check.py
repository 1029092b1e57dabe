"""`check`: a run against an accepted one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer
from rich.table import Column, Table
from rich.text import Text

from tread_bench.commands.console import stdout_console
from tread_bench.errors import UserError
from tread_bench.gate.baseline import figures_of, read_baseline, write_baseline
from tread_bench.gate.compare import compare
from tread_bench.gate.findings import Finding, Verdict, exit_status
from tread_bench.gate.outputs import as_json, headline, junit, markdown
from tread_bench.store import RunFolder, write_atomically

_STYLES = {Verdict.FAIL: "bold red", Verdict.INCONCLUSIVE: "yellow", Verdict.UNFIT: "yellow", Verdict.SKIPPED: "dim"}


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the findings also go."""

    junit: Path | None
    markdown: Path | None
    as_json: bool


def check_run(root: Path, path: Path, accept: bool, outputs: Outputs) -> int:
    """Compare, print, and with `accept` write the baseline; the exit status. Raises UserError."""
    folder = RunFolder(root)
    plan = folder.existing_plan()
    suite, records = plan["suite"]["name"], folder.records(plan["references"])
    cells = figures_of(records)
    if accept and not cells:
        raise UserError(f"{root} has no finished cell: nothing to accept")
    margins: dict[str, float] = {}
    findings: list[Finding] = []
    if not accept or path.exists():
        baseline = read_baseline(path)
        margins = baseline.margins
        reasons = {f"{r.row} seed {r.seed}": r.reason for r in records if r.status != "done"}
        findings = compare(baseline, cells, reasons)
    status = 0 if accept else exit_status(findings)
    tell(findings, "check", suite, status, outputs)
    if accept:
        write_baseline(path, suite, cells, margins)
        typer.echo(f"accepted {len(cells)} cells: {path}", err=True)
    elif status:
        typer.echo("--accept makes this run the new baseline", err=True)
    return status


def tell(findings: list[Finding], command: str, suite: str, status: int, outputs: Outputs) -> None:
    """Write the files that were asked for, and print the findings."""
    title = f"tread-bench {command}: {suite}"
    if outputs.junit:
        write_atomically(outputs.junit, junit(findings, title))
    if outputs.markdown:
        write_atomically(outputs.markdown, markdown(findings, title))
    if outputs.as_json:
        typer.echo(as_json(findings, suite, status))
        return
    told = [finding for finding in findings if finding.verdict is not Verdict.PASS]
    if told:
        stdout_console().print(_table(told))
    typer.echo(headline(findings))


def _table(findings: list[Finding]) -> Table:
    table = Table(Column("cell"), "figure", "verdict", "accepted", "measured", "reason")
    for f in findings:
        texts = (f.cell, f"{f.kind}: {f.figure}", f.verdict.value, f.accepted, f.measured, f.reason)
        table.add_row(*(Text(text) for text in texts), style=_STYLES.get(f.verdict))
    return table
