"""`ci check`: a run against an accepted one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tread_bench.core.errors import UserError
from tread_bench.core.stored.destinations import refuse_in_run, refuse_taken
from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.outputs import try_file
from tread_bench.core.stored.records import Record, of_study
from tread_bench.regression.baseline.baseline import Baseline, CellFigures, figures_of, read_baseline, write_baseline
from tread_bench.regression.baseline.compare import compare
from tread_bench.regression.baseline.findings import Finding, Verdict, exit_status
from tread_bench.regression.baseline.outputs import junit, markdown
from tread_bench.runner.folder import RunFolder


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files that the findings are written to."""

    junit: Path | None = None
    markdown: Path | None = None
    overwrite: bool = False

    def try_paths(self) -> None:
        """Before anything is compared: raises OutputError where a file must not be written."""
        for option, path in (("--junit", self.junit), ("--markdown", self.markdown)):
            if path:
                refuse_taken(option, path, self.overwrite)
                try_file(option, path)

    def write(self, findings: list[Finding], title: str) -> None:
        """Raises UserError where a file cannot be written."""
        for option, path, written in (("--junit", self.junit, junit), ("--markdown", self.markdown, markdown)):
            if path:
                with _writing(option, path):
                    write_atomically(path, written(findings, f"tread-bench {title}"), self.overwrite)


@dataclass(frozen=True, slots=True)
class Checked:
    """Findings about a suite, the exit status that follows, and how many cells became the baseline."""

    suite: str
    findings: list[Finding]
    status: int
    accepted: int = 0


def check_run(root: Path, path: Path, accept: bool, outputs: Outputs) -> Checked:
    """Compare a run with a baseline, and with `accept` write the baseline. Raises UserError."""
    # Where to write.
    outputs.try_paths()
    if accept:
        refuse_in_run("--baseline", path)
        try_file("--baseline", path)

    # The run, which must be whole to be accepted, and what was accepted before.
    folder = RunFolder(root)
    plan = folder.existing_plan()
    _refuse_smoke(root, plan)
    suite, records = plan.suite.name, of_study(folder.records(plan.references))
    failed = {f"{r.row} seed {r.seed}": r.reason for r in records if r.status != "done"}
    _refuse_unfinished(root, plan, records, len(failed) if accept else 0)
    baseline = None if accept and not path.exists() else _baseline_of(root, suite, path)
    cells = figures_of(records)
    if accept:
        _refuse_unfit(root, suite, cells)

    # What differs.
    findings = compare(baseline, cells, failed) if baseline else []
    outputs.write(findings, f"ci check: {suite}")
    if accept:
        with _writing("--baseline", path):
            write_baseline(path, suite, cells, baseline.margins if baseline else {})
        return Checked(suite, findings, 0, len(cells))
    return Checked(suite, findings, exit_status(findings))


def _refuse_smoke(root: Path, plan: RunPlan) -> None:
    """Figures of a few iterations say nothing about the program, neither as a run to check nor as a baseline."""
    if plan.smoke:
        raise UserError(
            f"{root} is a smoke run of a few iterations: it can be neither checked nor accepted as a baseline; run its "
            "suite without --smoke into another folder"
        )


def _refuse_unfinished(root: Path, plan: RunPlan, records: Sequence[Record], failed: int) -> None:
    """Cells that an interrupted run lacks say nothing about the program."""
    of = plan.planned - len(plan.tuning_cells)
    missing = of - len(records)
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
