"""`check` on run folders made by hand: what it refuses, what it writes and where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import tread_bench
from tests.run_folders import put
from tread_bench.cli.commands.check import check
from tread_bench.core.errors import UserError

STORED = Path(__file__).parents[1] / "stored"


@pytest.fixture
def run_folder(tmp_path):
    """Makes a run of one cell per status, where None has no record yet, and "trained" no speed."""

    def make(*statuses, suite="fixture", name="run"):
        record, plan = (json.loads((STORED / f"{kind}.json").read_text()) for kind in ("record", "plan"))
        folder, rows = tmp_path / name, {}
        for seed, status in enumerate(statuses):
            cell = f"row-s{seed}-0"
            rows[cell] = ("row", seed)
            about = {"cell": cell, "seed": seed, "status": status, "reason": "NaN" * (status == "failed")}
            if status == "trained":
                about |= {"status": "done", "timing": None}
            if status:
                put(folder / "cells" / cell / "record.json", json.dumps(record | about))
        about = {"cells": [*rows], "references": {cell: cell for cell in rows}, "rows": rows}
        put(folder / "plan.json", json.dumps(plan | about | {"suite": {"name": suite, "description": ""}}))
        return folder

    return make


@pytest.fixture
def baseline(run_folder, tmp_path):
    """Of a whole run of two cells."""
    path = tmp_path / "baseline.json"
    check(run_folder("done", "done", name="accepted"), path, True)
    return path


def test_an_unfinished_run_is_neither_judged_nor_accepted_and_a_failed_cell_is_judged(run_folder, baseline):
    before, other = baseline.read_bytes(), baseline.with_name("another.json")
    unfinished = {
        ("done", "failed", None): "of 3 cells, 1 failed and 1 have no record or no speed yet; .* --retry-failed",
        ("done", "trained"): "is not finished: of 2 cells, 0 failed and 1 have no record or no speed",
    }
    for statuses, told in unfinished.items():
        for path, accept in ((baseline, True), (other, True), (baseline, False)):
            with pytest.raises(UserError, match=told):
                check(run_folder(*statuses, name=str(len(statuses))), path, accept)
    with pytest.raises(UserError, match="of 1 cells, 1 failed and 0 have no record"):
        check(run_folder("failed", name="alone"), baseline, True)
    assert baseline.read_bytes() == before and not other.exists()
    done = tread_bench("ci", "check", run_folder("done", "failed", name="failed"), "--baseline", baseline)
    assert done.returncode == 1 and "NaN" in done.stdout and "vanished" not in done.stdout


@pytest.mark.parametrize("accept", [False, True])
def test_neither_a_smoke_run_nor_one_of_another_suite_is_judged_or_accepted(run_folder, baseline, accept):
    run, before = run_folder("done", "done", name="smoke"), baseline.read_bytes()
    plan = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps({**plan, "smoke": True}))
    with pytest.raises(UserError, match=r"is a smoke run.*neither checked nor accepted.*without --smoke"):
        check(run, baseline, accept)
    with pytest.raises(UserError, match=r"the baseline is of suite fixture, the run in .* of other"):
        check(run_folder("done", "done", suite="other"), baseline, accept)
    assert baseline.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{\xff", r"broken.json cannot be read as JSON \("),
        (b"{}", "broken.json: suite is missing: add it; cells is missing: add it"),
        (b'{"schema_version": 2, "suite": "s", "cells": {}}', "broken.json has format version 2, and this .* reads 1"),
    ],
)
def test_a_broken_baseline_is_told_and_never_written_over(run_folder, tmp_path, content, told):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    rule = "; (or )?restore it from version control, or `--accept` a run into another"
    for accept in (False, True):
        with pytest.raises(UserError, match=f"{told}.*{rule}"):
            check(run_folder("done"), path, accept)
    assert path.read_bytes() == content


@pytest.mark.parametrize("option", ["--junit", "--baseline"])
def test_a_file_that_cannot_be_written_is_one_message_without_a_verdict(run_folder, tmp_path, option):
    (tmp_path / "folder").mkdir()
    options = {"--baseline": tmp_path / "new.json", option: tmp_path / "folder"}
    arguments = [text for pair in options.items() for text in pair]
    done = tread_bench("ci", "check", run_folder("done"), "--accept", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{option} {tmp_path / 'folder'} cannot be written (")
    assert not (tmp_path / "new.json").exists()
