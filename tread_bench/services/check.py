"""`ci check`: a run against an accepted one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tread_bench.core.errors import UserError
from tread_bench.core.stored.destinations import refuse_in_run, refuse_taken
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.outputs import try_file
from tread_bench.core.stored.records import of_study
from tread_bench.regression.baseline import Baseline, figures_of, read_baseline, write_baseline
from tread_bench.regression.compare import compare
from tread_bench.regression.findings import Finding, exit_status, junit
from tread_bench.runner.folder import RunFolder


class Checked(NamedTuple):
    """Findings about a suite, and the exit status that follows: 0 for a run that became the baseline."""

    suite: str
    findings: list[Finding]
    status: int


def check_run(root: Path, path: Path, accept: bool, xml: Path | None = None, overwrite: bool = False) -> Checked:
    """Compare a run with a baseline, and with `accept` write the baseline. Raises UserError."""
    # Where to write.
    if xml:
        refuse_taken("--junit", xml, overwrite)
        try_file("--junit", xml)
    if accept:
        refuse_in_run("--baseline", path)
        try_file("--baseline", path)

    # The run, which must be whole.
    folder = RunFolder(root)
    plan = folder.existing_plan()
    if plan.smoke:
        raise UserError(
            f"{root} is a smoke run of a few iterations: it can be neither checked nor accepted as a baseline; run its "
            "suite without --smoke into another folder"
        )
    suite = plan.suite.name
    records = of_study(folder.records(plan.references))
    failed = {f"{r.row} seed {r.seed}": r.reason for r in records if r.status != "done"}
    count = plan.planned - len(plan.tuning_cells)
    missing = count - len(records)
    if missing or (accept and failed):
        raise UserError(
            f"{root} is not finished: of {count} cells, {len(failed)} failed and {missing} have no record; run its "
            f"suite again with --out {root} --retry-failed, which resumes from there"
        )

    # What was accepted before.
    cells = figures_of(records)
    old = None if accept and not path.exists() else read_baseline(path)
    if old and old.suite != suite:
        raise UserError(
            f"{path}: the baseline is of suite {old.suite}, the run in {root} of {suite}; give the baseline of "
            f"{suite}, or `--accept` the run into another file"
        )

    # What differs, and what is accepted now; margins stay.
    findings = compare(old, cells, failed) if old else []
    if xml:
        write_atomically(xml, junit(findings, f"tread-bench ci check: {suite}"), overwrite)
    if accept:
        new = Baseline(suite=suite, cells=cells)
        write_baseline(path, new.model_copy(update={"margins": old.margins}) if old else new)
    return Checked(suite, findings, 0 if accept else exit_status(findings))
