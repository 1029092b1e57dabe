"""What `plan` and `run` say before training of the decision that a suite can reach, against the decision itself."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from synthetic_records import decided as decided_of
from synthetic_records import evaluation, timing

from tests.command_line import tread_bench
from tread_bench.core.describe.routes import format_routes
from tread_bench.core.numbers.costs import cell_cost, training_macs
from tread_bench.core.stored.records import Record
from tread_bench.reports.decision import Outcome
from tread_bench.suite.decidable import OBSTACLES, obstacles
from tread_bench.suite.load import load_plan

SUITES = Path(__file__).parents[2] / "suites"
SUITE = """\
name: study
seeds: 3
base:
  backbone: {name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}
  training: {iterations: 80, batch: 16}
  metrics: {at: [30, 80]}
rows:
  dense: {}
  routed: {method: tread, routes: 1:2@0.5, training: &equal {budget: {macs_of: dense}}}
  fewer: {backbone: {depth: 3}, training: *equal}
"""
CONTROL = "  fewer: {backbone: {depth: 3}, training: *equal}\n"
SIX = ["metrics.at=[10, 20, 30, 40, 50, 60]"]


@pytest.fixture
def planned_as(tmp_path):
    def plan(overrides=(), replaced=()):
        text = SUITE
        for old, new in dict(replaced).items():
            text = text.replace(old, new)
        (tmp_path / "suite.yaml").write_text(text)
        return load_plan(tmp_path / "suite.yaml", overrides)

    return plan


def said(plan):
    return [str(one) for one in obstacles(plan)]


def decided(plan):
    """The decisions on a plan whose cells have all been trained, each with falling FIDs."""
    noise = random.Random(0)
    records = []
    for planned in plan.cells:
        cell = planned.cell
        family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
        found = []
        for iteration in cell.metrics.iterations(cell.training.iterations):
            macs = training_macs(cell, iteration)
            fid = 1e6 * (1 + macs) ** -0.5 * noise.lognormvariate(0, 0.05)
            found.append(evaluation(iteration, fid).model_copy(update={"training_macs": macs}))
        records.append(
            Record(
                cell=planned.id, suite=plan.suite.name, row=planned.row, seed=planned.seed, status="done",
                config=cell.model_dump(mode="json"), backbone=cell.backbone.label, family=family.name,
                method=cell.method.name, routes=format_routes(cell.routes), reference=planned.reference,
                num_blocks=family.num_blocks(spec), cost=cell_cost(cell), evaluations=found,
                timing=timing(1.1, planned.seed) if plan.suite.timing.pairs else None,
            )
        )  # fmt: skip
    return [decision for _, decision in decided_of(records)]


def test_every_obstacle_is_named_at_once(planned_as):
    found = said(planned_as(["timing.pairs=0", "metrics.at=[30, 60]"], {"seeds: 3": "seeds: 1"}))
    assert [one.partition(":")[0] for one in found] == ["seeds", "timing.pairs", "metrics.at"]
    assert said(planned_as()) == []


WITHOUT_BUDGET = {CONTROL: "", "{budget: {macs_of: dense}}": "{iterations: 80}"}
CASES = {
    "a control": ({}, (), ""),
    "no control": ({CONTROL: ""}, (), "rows: no control costs as much as a route"),
    "no route": ({"routed: {method: tread, routes: 1:2@0.5, ": "routed: {"}, (), "rows: no row has routes"),
    "no dense row": (
        {"  dense: {}\n": "", **WITHOUT_BUDGET},
        (),
        "rows: no row with routes has a dense row of the same",
    ),
    "no budget": (WITHOUT_BUDGET, (), "training.budget: row 'routed'"),
    "no budget, curves": (WITHOUT_BUDGET, SIX, "rows: no control"),
    "no budget, late": (WITHOUT_BUDGET, ["metrics.at=[75, 76, 77, 78, 79, 80]"], "training.budget: row 'routed'"),
    "no end": (
        {},
        ["metrics.at=[30, 60]"],
        "metrics.at: row 'dense' is trained for 80 iterations and last evaluated at 60, so nothing is compared with it "
        "at equal training MACs; add 80",
    ),
    "no end, curves": ({}, SIX, ""),
    "decay": ({}, [*SIX, "training.decay=linear"], "metrics.at: row 'dense'"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_in_the_way_is_in_the_way(planned_as, case):
    """What is said before training is what the decision turns out to lack."""
    replaced, overrides, message = CASES[case]
    plan = planned_as(overrides, replaced)
    found = said(plan)
    assert [one[: len(message)] for one in found] == ([message] if message else [])
    tests = [decision.tests for decision in decided(plan)]
    is_compared = any(test[0].outcome is not Outcome.UNTESTED for test in tests)
    assert is_compared == (not found or message.startswith("rows: no control"))
    assert any(test[2].outcome is not Outcome.UNTESTED for test in tests) == (not found)


@pytest.mark.parametrize("suite", ["guidance", "onset_cpu", "route_placement"])
def test_suites_that_ask_something_else_or_can_decide_have_nothing_in_their_way(suite):
    assert said(load_plan(SUITES / f"{suite}.yaml")) == []


def test_plan_and_run_say_it_on_stderr_before_anything_is_trained(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(SUITE)
    settings = ("metrics.at=[30]", "metrics.num_samples=100", "sampling.steps=2")
    short = ("--set", "seeds=1", *(part for setting in settings for part in ("--set", setting)))
    planned = tread_bench("plan", path, *short, "--json")
    lines = planned.stderr.splitlines()
    assert planned.returncode == 0 and lines[0] == OBSTACLES and json.loads(planned.stdout)["obstacles"] == lines[1:]
    assert [line.partition(":")[0] for line in lines[1:]] == ["seeds", "metrics.at"]
    ran = tread_bench("run", path, *short, "--out", tmp_path / "run", "--rows", "dense", "--set", "timing.pairs=0")
    assert ran.returncode == 0 and ran.stderr.index(OBSTACLES) < ran.stderr.index("to do")
    assert "timing.pairs: " in ran.stderr
