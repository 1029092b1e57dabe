"""`plan --detect` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.run_folders import end, ready
from tests.toy_suite import toy_suite, write_suite
from tread_bench.cli.app import app
from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.cell_costs import cell_cost, training_macs
from tread_bench.core.numbers.statistics import paired_test_power, seeds_to_find
from tread_bench.core.stored.records import Evaluation
from tread_bench.suite.load import load_plan

THIRD_ROW = "  other: {method: tread, routes: 2:2@0.5}\n"
SUITE = toy_suite(iterations=4, checkpoint_every=2, seeds=4).replace("timing:", f"{THIRD_ROW}timing:")
FIDS = {"dense": [20.0, 22.0, 21.0, 19.0], "routed": [21.0, 24.5, 21.5, 20.0], "other": [23.0, 23.5, 24.0, 20.5]}
FIDS["longer"] = FIDS["routed"]
AT_ITS_END = [19.0, 20.0, 22.5, 18.5]
BUDGET = "  longer: {method: tread, routes: 1:2@0.5, training.budget: {macs_of: dense}}\n"


@pytest.fixture
def suite(tmp_path) -> Path:
    return write_suite(tmp_path, SUITE)


@pytest.fixture
def finished(suite, tmp_path) -> Path:
    """A run folder of the suite with known FIDs."""
    return write_run(suite, tmp_path / "run", [])


def write_run(suite: Path, root: Path, overrides: list[str], smoke: bool = False) -> Path:
    plan = load_plan(suite, overrides)
    folder = ready(root, plan)
    if smoke:
        folder.plan_path.write_text(folder.existing_plan().model_copy(update={"smoke": True}).model_dump_json())
    for cell in plan.cells:
        found = [evaluation(cell.cell, iteration, FIDS[cell.row][cell.seed]) for iteration in cell.cell.metrics.at]
        if cell.row == "longer":
            found[-1] = evaluation(cell.cell, found[-1].iteration, AT_ITS_END[cell.seed])
        end(folder, cell.id, evaluations=found, cost=cell_cost(cell.cell))
    return root


def evaluation(cell: Cell, iteration: int, fid: float) -> Evaluation:
    figures = {"validation_loss": 1, "validation_loss_per_time": {}, "fid": fid}
    return Evaluation(iteration=iteration, train_seconds=1, training_macs=training_macs(cell, iteration), **figures)


def planned(*arguments: object):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def detection(*arguments: object):
    done = planned(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["detection"]


def test_a_stated_spread_gives_each_row_the_seeds_of_the_first_step_of_holm(suite):
    found = detection(suite, "--detect", 1.5, "--spread", 1.2)
    seeds = seeds_to_find(1.5 / 1.2, 1000, 0.05 / 2)
    known = {"reference": "dense", "spread": 1.2, "pairs": None, "seeds": seeds, "seeds_upper": seeds}
    for name, row in zip(("routed", "other"), found["rows"], strict=True):
        assert row == {"row": name, "power": row["power"], **known}
    assert found["difference"] == 1.5


def test_a_run_gives_each_row_its_own_spread_with_its_bound(suite, finished):
    rows = {row["row"]: row for row in detection(suite, "--detect", 1.5, "--from", finished)["rows"]}
    for name, row in rows.items():
        spread = float(np.std(np.subtract(FIDS[name], FIDS["dense"]), ddof=1))
        assert row["spread"] == pytest.approx(spread) and row["pairs"] == 4
        upper = spread * (3 / 0.3518463) ** 0.5  # chi-square, 5 %
        found = (row["seeds"], row["seeds_upper"])
        assert found == tuple(seeds_to_find(1.5 / one, 1000, 0.05 / 2) for one in (spread, upper))
        assert row["power"] == pytest.approx(paired_test_power(1.5 / spread, 4, 0.05 / 2))


def test_a_row_with_a_budget_has_the_spread_of_differences_at_equal_cost(tmp_path):
    text = SUITE.replace(THIRD_ROW, BUDGET).replace("iterations: 4,", "iterations: 60,").replace("at: [4]", "at: [60]")
    suite = write_suite(tmp_path, text)
    rows = detection(suite, "--detect", 1.5, "--from", write_run(suite, tmp_path / "run", []))["rows"]
    at = [(row["row"], row["reference"], row["spread"]) for row in rows]
    spreads = [float(np.std(np.subtract(fids, FIDS["dense"]), ddof=1)) for fids in (FIDS["routed"], AT_ITS_END)]
    assert at == [("routed", "dense", pytest.approx(spreads[0])), ("longer", "dense", pytest.approx(spreads[1]))]


def test_rows_that_a_run_lacks_are_not_known(suite, tmp_path):
    pilot = tmp_path / "pilot.yaml"
    pilot.write_text(SUITE.replace(THIRD_ROW, ""))
    said = planned(suite, "--detect", 1.5, "--from", write_run(pilot, tmp_path / "pilot", [])).output
    assert "A difference of 1.5 FID, at 80% power, over 2 rows" in said and "not known" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--detect", "1.5"), "neither was given"),
        (("--detect", "1.5", "--spread", "1", "--from", "run"), "both were given"),
        (("--detect", "0", "--spread", "inf"), "--detect 0: must be a finite number above 0, in FID\n--spread inf"),
        (("--spread", "1"), "add --detect FID"),
        (("--from", "run"), "add --detect FID"),
        (("--detect", "1.5", "--from", "nowhere"), "not a run folder"),
        (("--detect", "1.5", "--spread", "1", "--set", "metrics.generate=false"), "compares no row"),
    ],
)
def test_what_cannot_be_answered_is_one_clear_error(arguments, said, suite):
    error = planned(suite, *arguments).exception
    assert isinstance(error, UserError) and said in str(error)


def test_smoke_runs_and_runs_without_pairs_are_refused(suite, tmp_path):
    smoke = write_run(suite, tmp_path / "smoke", [], smoke=True)
    assert "smoke run" in str(planned(suite, "--detect", 1.5, "--from", smoke).exception)
    single = write_run(suite, tmp_path / "single", ["seeds=1"])
    assert "two seeds or more" in str(planned(suite, "--detect", 1.5, "--from", single).exception)
