"""Rows under wsd that differ in their length alone: one trunk, a decay each, and what each has cost."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess

import pytest

from tests.command_line import command, figures, tread_bench, wait_for
from tests.toy_suite import FEW_SAMPLES, write_suite
from tread_bench.core.numbers.cell_costs import expected_work
from tread_bench.core.problems import SuiteError
from tread_bench.runner.cell_status import CellStatus
from tread_bench.runner.estimate import Remaining
from tread_bench.runner.runner import placed
from tread_bench.suite.load import load_plan

SUITE = f"""\
name: toy
seeds: 1
base:
  backbone: {{name: DiT, depth: 3, hidden: 16, heads: 2, patch: 2}}
  training: {{iterations: 60, batch: 16, learning_rate: 1e-3, checkpoint_every: 7, decay: {{name: wsd, share: 0.2}}}}
  sampling: {{steps: 2}}
  metrics: {{{FEW_SAMPLES}}}
matrix:
  training.iterations: [20, 40, 60]
rows:
  dense: {{}}
  routed: {{method: tread, routes: 1:1@0.5}}
timing: {{pairs: 0}}
"""
SHARED = {20: 16, 40: 32, 60: 0}  # of 20, 40 and 60 iterations, those before their last fifth
SCHEDULED = SUITE.replace("routes: 1:1@0.5", "routes: 1:1@0.5, schedule: {until: 0.5}")


def records(out):
    """By cell, without what only says where a step was made."""
    found = {path.parent.name: json.loads(path.read_text()) for path in out.glob("cells/*/record.json")}
    return {cell: figures(record) for cell, record in found.items()}


def apart(found):
    return {cell: {**record, "shared_iterations": None} for cell, record in found.items()}


def length(record):
    return record["config"]["training"]["iterations"]


def test_a_plan_says_what_is_shared_and_counts_it_once(suite):
    document = json.loads(tread_bench("plan", suite, "--step-time", 10, "--json").stdout)
    rows = document["rows"]
    assert {row["iterations"]: row["shared_iterations"] for row in rows} == SHARED
    for row in rows:
        assert row["shared_macs"] * row["iterations"] == row["training_macs"] * row["shared_iterations"]
    own = sum(row["device_hours"] - row["shared_hours"] for row in rows)
    assert document["device_hours"] == pytest.approx(own)
    steps = {of: sum(row[of] for row in rows) for of in ("iterations", "shared_iterations")}
    assert steps == {"iterations": 240, "shared_iterations": 96}
    shown = tread_bench("plan", suite).stdout
    assert "4 rows begin with steps of longer ones: 40% of the study's MACs, trained once" in shown.replace("\n", " ")


def test_trunks_train_before_what_branches_off_them(suite):
    plan = load_plan(suite)
    trunks, shorter = placed(plan.cells)
    assert {cell.cell.training.iterations for cell in trunks} == {60}
    assert {cell.trunk.cell for cell in shorter} == {cell.id for cell in trunks}
    assert placed(shorter) == [shorter]  # without their trunks, they train from the start


def test_every_row_is_the_training_from_the_start(whole, suite, tmp_path):
    """Beside those of a run that has each length alone, so that nothing is shared."""
    found = records(whole)
    assert {length(record): record["shared_iterations"] for record in found.values()} == SHARED
    alone = {}
    for iterations in SHARED:
        out = tmp_path / str(iterations)
        one = write_suite(tmp_path, SUITE.replace("[20, 40, 60]", f"[{iterations}]"))
        assert tread_bench("run", one, "--out", out).returncode == 0
        alone |= records(out)
    assert len(found) == 6 and not any(record["shared_iterations"] for record in alone.values())
    by_key = lambda some: {  # noqa: E731  (rows have other names there)
        (record["method"], length(record)): {**record, "row": "", "cell": "", "reference": ""}
        for record in apart(some).values()
    }
    assert by_key(found) == by_key(alone)


def test_a_row_has_cost_its_trunk_and_its_decay_and_the_run_each_step_once(whole):
    with open(whole / "results.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        assert line["iteration"] and int(line["shared_iterations"] or 0) == SHARED[int(line["iteration"])]
    for method in ("dense", "tread"):
        macs = {int(line["iteration"]): float(line["training_macs"]) for line in lines if line["method"] == method}
        assert macs[20] / 20 == pytest.approx(macs[40] / 40) == pytest.approx(macs[60] / 60)
    total = sum(float(line["training_macs"]) for line in lines)
    page = (whole / "index.html").read_text()
    assert "4 cells begin with steps of a longer training, which each row" in page
    assert f"{total:.3g} training MACs in all rows, {0.6 * total:.3g} with each step counted once" in page


def test_where_a_trunk_is_gone_a_branch_trains_from_the_start(whole, suite, tmp_path):
    out = tmp_path / "run"
    done = tread_bench("run", suite, "--out", out, "--rows", "dense iterations=20")
    assert done.returncode == 0, done.stderr
    (cell,) = records(out)
    assert apart(records(out))[cell] == apart(records(whole))[cell]
    assert records(out)[cell]["shared_iterations"] == 0


def test_what_is_left_of_a_branch_is_its_decay(suite):
    plan = load_plan(suite)
    cell = next(cell for cell in plan.cells if cell.trunk)
    work = expected_work(cell.cell)
    left = CellStatus(cell.id, cell.row, 0, "waiting", shared_iterations=cell.trunk.iteration)
    remaining = Remaining({left.row_key: work}, {}, 1.0, False)
    assert remaining.of_cell(left) == 4 * work.training_step + work.evaluation


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seen", "count"), [("checkpoints/step-000000016.sha256", 1), ("outcome.json", 1), ("outcome.json", 3)]
)
def test_a_run_that_was_killed_ends_with_the_same_records(whole, suite, tmp_path, seen, count):
    """In both trunks, between them, and in a branch."""
    out = tmp_path / "run"
    with subprocess.Popen(
        command("run", suite, "--out", out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as runner:
        wait_for(lambda: len(list(out.glob(f"cells/*/{seen}"))) >= count or runner.poll() is not None)
        os.killpg(runner.pid, signal.SIGKILL)
    done = tread_bench("run", suite, "--out", out)
    assert done.returncode == 0, done.stderr
    assert records(out) == records(whole)


def test_a_schedule_in_shares_of_the_length_is_refused_where_it_is_written(tmp_path):
    with pytest.raises(SuiteError) as caught:
        load_plan(write_suite(tmp_path, SCHEDULED))
    said = str(caught.value)
    assert said.count("would share its steps before the decay with row 'routed iterations=60'") == 2
    assert "toy.yaml:" in said and "shares of the length" in said
    for decay in ("linear", "constant"):
        load_plan(write_suite(tmp_path, SCHEDULED.replace("{name: wsd, share: 0.2}", decay)))


def test_a_smoke_run_shares_nothing_but_what_is_the_same(suite):
    plan = load_plan(suite, is_smoke=True)
    trunks = {cell.trunk.cell for cell in plan.cells if cell.trunk}
    assert trunks <= {cell.id for cell in plan.cells if cell.branches}
