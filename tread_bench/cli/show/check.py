"""`check`: a run against an accepted one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.table import Column, Table
from rich.text import Text

from tread_bench.cli.show.console import stdout_console
from tread_bench.core.errors import UserError
from tread_bench.core.stored.destinations import refuse_in_run, refuse_taken
from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.outputs import try_file
from tread_bench.core.stored.records import Record
from tread_bench.regression.baseline.baseline import Baseline, CellFigures, figures_of, read_baseline, write_baseline
from tread_bench.regression.baseline.compare import compare
from tread_bench.regression.baseline.findings import Finding, Verdict, exit_status
from tread_bench.regression.baseline.outputs import as_json, headline, junit, markdown
from tread_bench.runner.folder import RunFolder

_STYLES = {Verdict.FAIL: "bold red", Verdict.INCONCLUSIVE: "yellow", Verdict.UNFIT: "yellow", Verdict.SKIPPED: "dim"}


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where the findings also go."""

    junit: Path | None
    markdown: Path | None
    as_json: bool
    overwrite: bool = False

    def try_paths(self) -> None:
        """Before anything is compared: raises OutputError where a file must not be written."""
        for option, path in (("--junit", self.junit), ("--markdown", self.markdown)):
            if path:
                refuse_taken(option, path, self.overwrite)
                try_file(option, path)


def check_run(root: Path, path: Path, accept: bool, outputs: Outputs) -> int:
    """Compare, print, and with `accept` write the baseline; the exit status. Raises UserError."""
    outputs.try_paths()
    if accept:
        refuse_in_run("--baseline", path)
        try_file("--baseline", path)
    folder = RunFolder(root)
    plan = folder.existing_plan()
    _refuse_smoke(root, plan)
    suite, records = plan.suite.name, folder.records(plan.references)
    failed = {f"{r.row} seed {r.seed}": r.reason for r in records if r.status != "done"}
    _refuse_unfinished(root, plan.cells, records, len(failed) if accept else 0)
    baseline = None if accept and not path.exists() else _baseline_of(root, suite, path)
    cells = figures_of(records)
    if accept:
        _refuse_unfit(root, suite, cells)
    findings = compare(baseline, cells, failed) if baseline else []
    status = 0 if accept else exit_status(findings)
    tell(findings, "ci check", suite, status, outputs)
    if accept:
        with _writing("--baseline", path):
            write_baseline(path, suite, cells, baseline.margins if baseline else {})
        typer.echo(f"accepted {len(cells)} cells: {path}", err=True)
    elif status:
        typer.echo("--accept makes this run the new baseline", err=True)
    return status


def _refuse_smoke(root: Path, plan: RunPlan) -> None:
    """Figures of a few iterations say nothing about the program, neither as a run to check nor as a baseline."""
    if plan.smoke:
        raise UserError(
            f"{root} is a smoke run of a few iterations: it can be neither checked nor accepted as a baseline; run its "
            "suite without --smoke into another folder"
        )


def _refuse_unfinished(root: Path, planned: Sequence[str], records: Sequence[Record], failed: int) -> None:
    """Cells that an interrupted run lacks say nothing about the program."""
    missing, of = len(planned) - len(records), len(planned)
    if failed:
        raise UserError(
            f"{root} cannot be accepted: of {of} cells, {failed} failed and {missing} have no record; run its suite "
            f"again with --out {root} --retry-failed, then accept it"
        )
    if missing:
        raise UserError(
            f"{root} is not finished: {missing} of {of} cells have no record yet; run its suite again with "
            f"--out {root}, which resumes from there"
        )


def _refuse_unfit(root: Path, suite: str, cells: Mapping[str, CellFigures]) -> None:
    """Figures that would be unfit for a verdict against themselves are no baseline."""
    findings = compare(Baseline(suite=suite, cells=dict(cells)), cells, {})
    unfit = [f"{one.cell}, {one.figure}: {one.reason}" for one in findings if one.verdict is Verdict.UNFIT]
    if unfit:
        raise UserError("\n".join([f"{root} cannot be accepted, since no run could be compared with it:", *unfit]))


def _baseline_of(root: Path, suite: str, path: Path) -> Baseline:
    baseline = read_baseline(path)
    if baseline.suite != suite:
        raise UserError(
            f"{path}: the baseline is of suite {baseline.suite}, the run in {root} of {suite}; give the baseline of "
            f"{suite}, or `--accept` the run into another file"
        )
    return baseline


@contextmanager
def _writing(option: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{option} {path} cannot be written ({error.strerror}); give another path") from None


def tell(findings: list[Finding], command: str, suite: str, status: int, outputs: Outputs) -> None:
    """Write the requested files, and print the findings. Raises UserError where a file cannot be written."""
    title = f"tread-bench {command}: {suite}"
    for option, path, written in (("--junit", outputs.junit, junit), ("--markdown", outputs.markdown, markdown)):
        if path:
            with _writing(option, path):
                write_atomically(path, written(findings, title), outputs.overwrite)
    if outputs.as_json:
        typer.echo(as_json(findings, suite, status))
        return
    others = [finding for finding in findings if finding.verdict is not Verdict.PASS]
    if others:
        stdout_console().print(_table(others))
    if findings:
        typer.echo(headline(findings))


def _table(findings: list[Finding]) -> Table:
    table = Table(Column("cell"), "figure", "verdict", "accepted", "measured", "reason")
    for f in findings:
        texts = (f.cell, f"{f.kind}: {f.figure}", f.verdict.value, f.accepted, f.measured, f.reason)
        table.add_row(*(Text(text) for text in texts), style=_STYLES.get(f.verdict))
    return table
