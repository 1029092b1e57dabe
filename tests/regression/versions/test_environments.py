from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.command_line import command, wait_for
from tests.run_folders import put
from tread_bench.cli.show.check import print_findings
from tread_bench.core.errors import UserError
from tread_bench.regression.baseline.findings import Verdict
from tread_bench.regression.versions.environments import build, checkout, commit_of, export
from tread_bench.regression.versions.windows import (
    Subject,
    Version,
    disturbances,
    read_step_times,
    step_times,
    steps_for,
)
from tread_bench.services import regress
from tread_bench.services.check import Outputs
from tread_bench.services.display import Lines
from tread_bench.services.regress import _exact

STORED = Path(__file__).parents[2] / "stored"
RECORD = json.loads((STORED / "record.json").read_text())
SUITE = """\
name: one
base:
  backbone: {name: DiT, depth: 3, hidden: 16, heads: 2, patch: 2}
  training: {iterations: 10, batch: 8}
rows:
  routed: {method: tread, routes: 1:1@0.5}
"""


def write_run(folder, *records):
    """A run folder of these records, each the reference of itself."""
    cells = [record["cell"] for record in records]
    about = {
        "cells": cells,
        "references": {cell: cell for cell in cells},
        "rows": {record["cell"]: (record["row"], 0) for record in records},
    }
    put(folder / "plan.json", json.dumps(json.loads((STORED / "plan.json").read_text()) | about))
    for record in records:
        put(folder / "cells" / record["cell"] / "record.json", json.dumps(record))


@pytest.fixture(scope="module")
def root():
    try:
        return checkout()
    except UserError as error:
        pytest.skip(str(error))


def test_an_unknown_commit_is_one_error_that_names_it(root):
    with pytest.raises(UserError, match="--against no-such-ref: git has no such commit"):
        commit_of("no-such-ref", root)


def test_a_reference_that_looks_like_an_option_is_none(root):
    with pytest.raises(UserError, match="git has no such commit"):
        commit_of("--help", root)


def test_what_is_exported_are_the_files_of_the_commit(root, tmp_path):
    export(commit_of("HEAD", root), root, tmp_path)
    told = subprocess.run(["git", "show", "HEAD:LICENSE"], cwd=root, capture_output=True, check=True).stdout
    assert (tmp_path / "LICENSE").read_bytes() == told


@pytest.mark.slow
def test_a_version_in_its_own_environment_times_its_own_steps(root, tmp_path):
    source = export(commit_of("HEAD", root), root, tmp_path / "source")
    version = source / "tread_bench" / "__init__.py"
    version.write_text(version.read_text() + "\nMARK = 'of the copy'\n")
    python = build(source, tmp_path / "home")
    found = "import tread_bench, torch; print(tread_bench.MARK)"
    told = subprocess.run([python, "-P", "-c", found], capture_output=True, text=True, cwd=tmp_path, check=True).stdout
    assert told.strip() == "of the copy"

    suite = tmp_path / "one.yaml"
    suite.write_text(SUITE)
    times = step_times(Version("old", python), Subject(suite, ["timing.pairs=2"]), tmp_path / "run")
    assert times.keys() == {"routed"} and times["routed"] > 0
    assert times == read_step_times(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "plan.json").read_text())["git"] is None


def test_a_run_that_fails_is_told_with_its_last_lines(tmp_path):
    suite = tmp_path / "wrong.yaml"
    suite.write_text("name: wrong\nbase: {}\n")
    with pytest.raises(UserError, match=r"the old version cannot run wrong\.yaml") as told:
        step_times(Version("old", sys.executable), Subject(suite), tmp_path / "run")
    assert "wrong.yaml:" in str(told.value)


@pytest.mark.endurance
def test_an_ended_comparison_leaves_no_process_and_no_folder(root, tmp_path):
    started = {**os.environ, "TMPDIR": str(tmp_path)}
    asked = command("ci", "regress", "regression_cpu", "--against", "HEAD")
    process = subprocess.Popen(asked, cwd=root, env=started, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: list(tmp_path.glob("tread-bench-*/look/cells/*/progress.json")), seconds=200)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 3  # a runner, the server that it forks from, a cell
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "Traceback" not in told
    psutil.wait_procs(children, timeout=10)
    assert not [child for child in children if child.is_running()]
    assert not list(tmp_path.glob("tread-bench-*"))


def test_of_two_versions_what_is_measured_must_be_equal_and_not_how_settings_are_written(tmp_path):
    more_settings = {**RECORD, "config": {**RECORD["config"], "added": 1}}
    more_macs = {**RECORD, "cost": {**RECORD["cost"], "forward_macs": RECORD["cost"]["forward_macs"] + 1}}
    found = {}
    for name, new in (("settings", more_settings), ("macs", more_macs)):
        write_run(tmp_path / name / "old-1", RECORD)
        write_run(tmp_path / name / "new-2", new)
        versions = tuple(Version(side, tmp_path) for side in ("old", "new"))
        found[name] = [f.figure for f in _exact(tmp_path / name, versions) if f.verdict is Verdict.FAIL]
    assert found == {"settings": [], "macs": ["forward_macs"]}


def test_what_befell_the_gpu_in_a_window_is_read_from_its_record(tmp_path):
    clocks = {"old-1": (1980, 1980), "new-2": (1980, 1200), "new-3": (1980, 1300)}
    for window, (before, after) in clocks.items():
        gpu = {"gpu_before": {"sm_clock_mhz": before}, "gpu_after": {"sm_clock_mhz": after}}
        write_run(tmp_path / window, RECORD | {"timing": RECORD["timing"] | gpu})
    found = disturbances(tmp_path / window for window in clocks)
    told = [f"its SM clock went from 1980 to {clock} MHz" for clock in (1200, 1300)]
    assert found == {RECORD["row"]: told}


def test_rows_are_told_apart_by_their_names_and_not_by_cells_that_are_spelt_alike(tmp_path):
    rows = {"tread/1:1@0.5": 5.0, "tread/1:1/0.5": 7.0}
    records = []
    for k, (row, step_time_ms) in enumerate(rows.items()):
        timing = RECORD["timing"] | {"step_time_ms": step_time_ms}
        records.append(RECORD | {"cell": f"tread-1-1-0.5-s0-{k}", "row": row, "timing": timing})
    write_run(tmp_path, *records)
    assert read_step_times(tmp_path) == rows


@pytest.mark.parametrize(("slower", "noise", "status"), [(1.0, 0.005, 0), (1.06, 0.005, 1), (1.06, 0.1, 3)])
def test_regress_tells_its_verdict_by_its_exit_status(root, monkeypatch, capsys, slower, noise, status):
    rng = random.Random(0)

    def timed(version, *others):
        return {"row": 50.0 * (slower if version.name == "new" else 1.0) * rng.lognormvariate(0, noise)}

    monkeypatch.setattr(regress, "step_times", timed)
    monkeypatch.setattr(regress, "build", lambda source, home: home)
    monkeypatch.setattr(regress, "_exact", lambda home, versions: [])
    found = regress.regress("regression_cpu", "HEAD", [], "cpu", Outputs())
    print_findings(found, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert found.status == told["exit_status"] == status
    assert [finding["cell"] for finding in told["findings"]] == ["row"]


def test_what_a_window_cannot_run_is_told_before_anything_is_built(root, monkeypatch):
    monkeypatch.setattr(regress, "build", lambda *about: pytest.fail("it was built"))
    with pytest.raises(UserError, match=r"guidance\.yaml:\d+:\d+: .*must come before the evaluated iteration"):
        regress.regress("guidance", "HEAD", [], "cpu", Outputs())


@pytest.mark.parametrize(("new_ms", "begun"), [(50.0, 1), (51.5, 3)])
def test_regress_announces_twenty_pairs_at_a_time(tmp_path, monkeypatch, new_ms, begun):
    rng, lines = random.Random(0), []

    def timed(version, *others):
        return {"row": (50.0 if version.name == "old" else new_ms) * rng.lognormvariate(0, 0.005)}

    monkeypatch.setattr(regress, "step_times", timed)
    monkeypatch.setattr(regress, "_exact", lambda home, versions: [])
    versions = tuple(Version(side, tmp_path) for side in ("old", "new"))
    regress._compare(versions, Subject(tmp_path), tmp_path, Lines(lambda text, **style: lines.append(text)))
    phases = [line for line in lines if line.startswith("timing")]
    expected = [f"timing both versions in turn, pairs {k} to {k + 19}: 20 to do, 1 at a time" for k in (1, 21, 41)]
    assert phases == expected[:begun]
    assert len(lines) == 2 + 21 * begun  # and the first look


@pytest.mark.parametrize(("times", "steps"), [({"a": 20, "b": 50}, 50), ({"a": 400}, 8), ({"a": 0.1}, 200), ({}, 8)])
def test_a_window_is_a_second_of_the_fastest_row_within_bounds(times, steps):
    assert steps_for(times) == steps


def test_a_path_in_the_environment_does_not_take_the_place_of_a_version(tmp_path, monkeypatch):
    seen = tmp_path / "seen"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "${{PYTHONPATH-unset}}" > {seen}\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UserError):
        step_times(Version("old", python), Subject(tmp_path / "suite.yaml"), tmp_path / "run")
    assert seen.read_text() == "unset\n"


def test_paths_of_a_window_start_where_those_of_the_command_do(root, tmp_path, monkeypatch):
    """`$data_root`, relative paths of --set, and a relative --data-root."""
    (tmp_path / "mine.yaml").write_text(
        SUITE.replace(
            "  training:",
            "  data: {name: parquet, train: [$data_root/a.parquet], held_out: [], image_size: 8, num_classes: 2}\n"
            "  metrics: {generate: false, validation_samples: 2, similarity_samples: 2}\n  training:",
        )
    )
    (tmp_path / "data").mkdir()
    for name in ("data/a.parquet", "b.parquet"):
        (tmp_path / name).touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n(pwd; echo "$@") > {tmp_path}/seen\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(regress, "build", lambda source, home: python)
    monkeypatch.setattr(regress, "export", lambda *about: tmp_path)
    outputs = Outputs()
    with pytest.raises(UserError, match="the new version cannot run"):
        regress.regress("mine.yaml", "HEAD", ["data.held_out=[b.parquet]"], "cpu", outputs, Path("data"))
    folder, command = (tmp_path / "seen").read_text().splitlines()
    assert folder == str(tmp_path) and command.endswith("--set data.held_out=[b.parquet] --data-root data")
