"""`plan --hours` as a user types it: what fits, and which difference a decision then finds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.run_folders import end, ready
from tests.toy_suite import toy_suite, write_suite
from tread_bench.cli.app import app
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.costs import cell_cost, training_macs
from tread_bench.core.stored.records import Evaluation
from tread_bench.reports.decision import Candidate, Outcome, decide, decisions
from tread_bench.reports.study import Study
from tread_bench.runner.sources import read_run
from tread_bench.suite.load import load_plan

ROWS = """\
  other: {method: tread, routes: 0:2@0.5, training.budget: {macs_of: dense}}
  fewer: {backbone.depth: 3, training.budget: {macs_of: dense}}
timing:"""
SUITE = toy_suite(iterations=2000, checkpoint_every=50, at="1000, ", seeds=4).replace("timing:", ROWS)
SUITE = SUITE.replace("routes: 1:2@0.5}", "routes: 1:2@0.5, training.budget: {macs_of: dense}}")
FIDS = {"dense": [20.0, 22.0, 21.0, 19.0], "routed": [18.0, 19.5, 18.5, 18.0], "other": [19.0, 20.5, 20.0, 18.5]}
FIDS["fewer"] = FIDS["other"]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path, SUITE)


def planned(*arguments: object):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def fitting(*arguments: object) -> list[dict]:
    done = planned(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["within"]


def write_run(suite: Path, root: Path, overrides: list[str]) -> Path:
    """A run folder of the suite with known FIDs."""
    plan = load_plan(suite, overrides)
    folder = ready(root, plan)
    for cell in plan.cells:
        fids = [50.0, *[FIDS[cell.row][cell.seed]] * (len(cell.cell.metrics.at) - 1)]
        found = [
            Evaluation(
                iteration=iteration, train_seconds=1, training_macs=training_macs(cell.cell, iteration),
                validation_loss=1, validation_loss_per_time={}, fid=fid,
            )
            for iteration, fid in zip(cell.cell.metrics.at, fids, strict=True)
        ]  # fmt: skip
        end(folder, cell.id, evaluations=found, cost=cell_cost(cell.cell))
    return root


def test_what_is_proposed_fits_keeps_every_row_and_could_not_be_a_tenth_longer(suite: Path) -> None:
    found = {one["seeds"]: one for one in fitting(suite, "--step-time", 30, "--hours", 0.2)}
    assert set(found) == {2, 3, 4, 5, 10}
    assert found[2]["iterations"] == 2000 and found[2]["set"] == ["seeds=2"]
    assert 200 <= found[10]["iterations"] < found[5]["iterations"] < 2000
    for seeds, one in found.items():
        settings = [argument for setting in one["set"] for argument in ("--set", setting)]
        again = json.loads(planned(suite, "--step-time", 30, "--json", *settings).stdout)
        assert again["device_hours"] == one["device_hours"] <= 0.2
        assert {row["row"]: row["cells"] for row in again["rows"]} == dict.fromkeys(FIDS, seeds)
        assert not again["obstacles"] and one["finds"] is None
        if one["iterations"] < 2000:
            longer = [f"seeds={seeds}", f"training.iterations={one['iterations'] + 200}", "metrics.at=null"]
            settings = [argument for setting in longer for argument in ("--set", setting)]
            assert json.loads(planned(suite, "--step-time", 30, "--json", *settings).stdout)["device_hours"] > 0.195


def test_the_hours_of_tuning_do_not_grow_with_the_seeds(tmp_path: Path) -> None:
    tuned = write_suite(tmp_path, f"{SUITE}tune: {{share: 1.0, seeds: 4}}\n")
    found = {one["seeds"]: one for one in fitting(tuned, "--step-time", 30, "--hours", 2.3)}
    assert found[10]["iterations"] == 2000 and found[10]["device_hours"] > 1.8


def test_the_difference_is_that_of_a_decision_with_as_many_seeds(suite: Path, tmp_path: Path) -> None:
    """At the run's own number of seeds; the best route of this run varies most."""
    run = write_run(suite, tmp_path / "run", [])
    found = {one["seeds"]: one["finds"] for one in fitting(suite, "--step-time", 30, "--hours", 9, "--from", run)}
    ((_, decision),) = decisions([Study(read_run(run).records).rows])
    assert decision.route == "routed" and found[4] == pytest.approx(decision.detectable)
    assert found[2] > found[3] > found[4] > found[5] > found[10]


def test_a_decision_finds_it_as_often_as_is_said(suite: Path, tmp_path: Path) -> None:
    """Simulated: one of two routes differs by that much, and both vary as in the run."""
    run = write_run(suite, tmp_path / "run", [])
    (size,) = (one["finds"] for one in fitting(suite, "--step-time", 30, "--hours", 9, "--from", run)
               if one["seeds"] == 5)  # fmt: skip
    spread = float(np.std(np.subtract(FIDS["routed"], FIDS["dense"]), ddof=1))
    drawn = np.random.default_rng(0).normal(0.0, spread, (2000, 2, 5)) + np.array([[-size], [0.0]])
    dense = dict.fromkeys(range(5), 0.0)
    holds = 0
    for differences in drawn:
        routes = [dict(enumerate(one)) for one in differences.tolist()]
        decided = decide([Candidate(name=str(number), at_macs=(own, dense)) for number, own in enumerate(routes)])
        holds += decided.route == "0" and decided.tests[0].outcome is Outcome.HOLDS
    assert holds / 2000 == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("changed", ["timing.pairs=0", "metrics.at=[1,1000,2000]", "training.snapshots=[1000]"])
def test_obstacles_of_the_suite_and_fixed_moments_leave_what_fits(changed: str, suite: Path) -> None:
    found = {one["seeds"]: one for one in fitting(suite, "--step-time", 30, "--hours", 0.2, "--set", changed)}
    assert found[2]["iterations"] == 2000 and (10 in found) == ("snapshots" not in changed)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--hours", "12"), "--hours 12: how long a step takes is not known; add --step-time MS"),
        (("--from", "run"), "--from run: shows which differences --hours can find; add --hours H"),
        (("--step-time", "30", "--hours", "0"), "--hours 0: must be a finite number above 0"),
        (("--step-time", "30", "--hours", "nan"), "--hours nan: must be a finite number above 0"),
        (("--step-time", "30", "--hours", "9", "--from", "nowhere"), "nowhere is not a run folder"),
    ],
)
def test_what_cannot_be_answered_is_one_clear_error(arguments: tuple[str, ...], said: str, suite: Path) -> None:
    error = planned(suite, *arguments).exception
    assert isinstance(error, UserError) and said in str(error)


def test_a_run_without_pairs_shows_no_spread_and_too_few_hours_are_said(suite: Path, tmp_path: Path) -> None:
    single = write_run(suite, tmp_path / "single", ["seeds=1"])
    error = planned(suite, "--step-time", 30, "--hours", 9, "--from", single).exception
    assert isinstance(error, UserError) and "two seeds or more of a route of this suite (routed, other)" in str(error)
    assert "Two seeds do not fit into 0.01 device-hours" in planned(suite, "--step-time", 30, "--hours", 0.01).output
