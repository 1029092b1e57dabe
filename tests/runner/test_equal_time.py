"""Where rows are evaluated at equal time: by steps that were timed before training, and written in plan.json."""

from __future__ import annotations

import json

import pytest

from tests.command_line import figures
from tests.run_folders import planned
from tests.toy_suite import METRICS
from tread_bench.cli.costs import plan_table
from tread_bench.core.stored.documents import RowTiming
from tread_bench.core.stored.records import Record, TimingFigures
from tread_bench.runner import runner
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.options import Call, Options, Shard
from tread_bench.runner.speed import equal_time
from tread_bench.services.display import Lines
from tread_bench.suite.load import load_plan

SUITE = f"""\
name: toy
seeds: 1
base:
  backbone: {{name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}}
  training: {{iterations: 40, batch: 16, learning_rate: 1e-3}}
  sampling: {{steps: 2}}
  metrics: {{at: [20, 40], {METRICS}}}
rows:
  dense: {{}}
  routed: {{method: tread, routes: 1:2@0.5, training: &equal_cost {{budget: {{macs_of: dense}}}}}}
  smaller: {{backbone: {{depth: 3}}, training: *equal_cost}}
timing: {{pairs: 2, warmup: 1}}
"""
DENSE = "DiT (depth 4, hidden 16, heads 2, patch 2)"
SCHEDULED = """\
  until: {method: tread, routes: 1:2@0.5, schedule: {until: 0.75}, training: *equal_cost}
  rising: {method: tread, routes: 1:2@0.5, schedule: {warmup: 0.5}, training: *equal_cost}
  with-a-loss: {method: tread, routes: 1:2@0.5, schedule: {until: 0.5}, auxiliary: [mae], training: *equal_cost}
  fixed: {method: tread, routes: 1:2@0.5, training: {iterations: 50}}
  of-a-routed-one: {backbone: {depth: 3}, training: {budget: {macs_of: fixed}}}
"""


@pytest.fixture
def plan(tmp_path):
    return planned(tmp_path, SUITE)


def timed(speedup=1.0, dense_ms=100.0, wait_ms=0.0, beside=""):
    steps = {"step_times_ms": [dense_ms / speedup] * 2, "reference_step_times_ms": [dense_ms] * 2}
    return TimingFigures(
        **steps, step_time_ms=dense_ms / speedup, step_time_low_ms=1, step_time_high_ms=1, images_per_s=1,
        speedup=speedup, speedup_low=0.9 * speedup, speedup_high=1.1 * speedup, batch=16, warmup=1,
        loop_time_ms=200.0, data_wait_share=wait_ms / 200, reference_backbone=beside,
    )  # fmt: skip


WITH_WAIT = (40 * (100 + 10) / (100 / 1.8 + 30), 40 * (100 + 10) / (100 / 2.2 + 30))


@pytest.mark.parametrize(
    ("row", "reference", "own", "iteration", "interval"),
    [
        # In pairs it is the reference's iterations times the speed-up.
        ("routed", timed(), timed(1.5, dense_ms=70.0), 60, (0.9 * 60, 1.1 * 60)),
        # The wait for data is part of a step.
        ("routed", timed(wait_ms=10.0), timed(2.0, wait_ms=30.0), 40 * 110 / (50 + 30), WITH_WAIT),
        # Another architecture is compared by its seconds, unless it was timed in turn with the reference.
        ("smaller", timed(), timed(1.01, dense_ms=60.6), 40 * 100 / 60, (None, None)),
        ("smaller", timed(), timed(2.0, dense_ms=70.0, beside=DENSE), 80, (0.9 * 80, 1.1 * 80)),
        ("smaller", timed(), timed(2.0, dense_ms=70.0, beside="DiT (depth 9)"), 40 * 100 / 35, (None, None)),
        # A routed reference takes its own steps.
        ("of-a-routed-one", timed(2.0), timed(dense_ms=40.0), 50 * 50 / 40, (None, None)),
        # Under a schedule the mean of routed and dense steps counts; steps of other kinds are not timed.
        ("until", timed(), timed(2.0), 40 * 100 / (0.75 * 50 + 0.25 * 100), None),
        ("rising", timed(), timed(), None, None),
        ("with-a-loss", timed(), timed(), None, None),
        # It is at least the first; without both timings, or a budget, there is none.
        ("routed", timed(), timed(0.01), 1, None),
        ("routed", timed(), None, None, None),
        ("routed", None, timed(), None, None),
        ("dense", timed(), timed(), None, None),
    ],
)
def test_a_row_is_evaluated_where_it_has_trained_as_long(tmp_path, row, reference, own, iteration, interval):
    plan = planned(tmp_path, SUITE.replace("timing:", f"{SCHEDULED}timing:"))
    (cell,), named = plan.rows[row], "fixed" if row == "of-a-routed-one" else "dense"
    known = {plan.rows[named][0].row_key: reference, cell.row_key: own}
    found = equal_time(cell, plan, {key: timing for key, timing in known.items() if timing})
    assert found == iteration or found.iteration == round(iteration)
    if interval:
        assert (found.low, found.high) == pytest.approx(interval)


@pytest.mark.parametrize(
    ("written", "is_timed_in_turn"),
    [
        ("training: *equal_cost", True),
        ("training: {batch: 8, budget: {macs_of: dense}}", False),
        ("method: tread, routes: 1:2@0.5, schedule: {until: 0.75}, training: *equal_cost", False),
        ("training: {iterations: 40}", False),
    ],
    ids=["to its budget", "another batch", "two kinds of steps", "no budget"],
)
def test_a_network_of_another_size_is_timed_in_turn_with_the_row_of_its_budget(tmp_path, written, is_timed_in_turn):
    plan = planned(tmp_path, SUITE.replace("{depth: 3}, training: *equal_cost", f"{{depth: 3}}, {written}"))
    (smaller,), (dense,), (routed,) = (plan.rows[name] for name in ("smaller", "dense", "routed"))
    assert plan.timed_with(smaller) is (dense if is_timed_in_turn else None)
    assert plan.timed_with(dense) is plan.timed_with(routed) is None
    rows = {row["row"]: row for row in plan_table(plan)}
    if is_timed_in_turn:
        assert rows["smaller"]["ideal_speedup"] == rows["dense"]["forward_macs"] / rows["smaller"]["forward_macs"]
    elif "routes" not in written:
        assert rows["smaller"]["ideal_speedup"] == 1


def test_records_say_what_a_control_was_timed_with(plan, tmp_path):
    found, _ = run(plan, tmp_path / "run")
    records = {name: Record.model_validate(cell) for name, cell in found.items()}
    smaller, dense = records["smaller 0"], records["dense 0"]
    assert smaller.timing.reference_backbone == dense.backbone != smaller.backbone
    assert smaller.ideal_speedup == dense.cost.forward_macs / smaller.cost.forward_macs > 1
    assert smaller.equal_time.low < smaller.equal_time.high
    assert not any("reference_backbone" in found[name]["timing"] for name in ("dense 0", "routed 0"))
    assert records["routed 0"].ideal_speedup == records["routed 0"].cost.ideal_speedup


def run(plan, root, speedups=None, **options):
    """The run's records by row; with these speed-ups in place of measured ones, if they are given."""
    with pytest.MonkeyPatch.context() as patched:
        if speedups:
            timings = {
                plan.rows[row][0].row_key: RowTiming.model_construct(timing=timed(speedups[row])) for row in speedups
            }
            patched.setattr(runner, "measure", lambda *arguments: timings)
        said = []
        display = Lines(lambda text, **_: said.append(text))
        runner.run(plan, Call(SUITE, RunFolder(root), Options(**options), display))
    cells = [json.loads(path.read_text()) for path in root.glob("cells/*/record.json")]
    return {f"{cell['row']} {cell['seed']}": cell for cell in cells}, said


def test_rows_are_evaluated_there_before_their_end_and_beyond_it_and_nothing_else_changes(plan, tmp_path):
    untimed = load_plan(tmp_path / "toy.yaml", ["timing.pairs=0"])
    plain, _ = run(untimed, tmp_path / "plain")
    found, _ = run(plan, tmp_path / "run", {"dense": 1.0, "routed": 0.75, "smaller": 2.0})
    assert {name: figures(cell) for name, cell in found.items()} == {n: figures(cell) for n, cell in plain.items()}
    assert found["dense 0"]["equal_time"] is None and found["dense 0"]["at_equal_time"] is None

    # Equal time comes before the end of the one, and after that of the other.
    assert found["routed 0"]["equal_time"]["iteration"] == found["routed 0"]["at_equal_time"]["iteration"] == 30
    assert found["smaller 0"]["config"]["training"]["iterations"] < 80 == found["smaller 0"]["equal_time"]["iteration"]
    assert not [*(tmp_path / "run").glob("cells/*/equal_time")]

    # There, a row is what a row of that length is.
    longer = SUITE.replace("training: *equal_cost", "training: {iterations: 80}, metrics: {at: [80]}")
    alone, _ = run(planned(tmp_path, longer), tmp_path / "longer", {"dense": 1.0}, rows=("smaller",))
    assert measured(found["smaller 0"]["at_equal_time"]) == measured(alone["smaller 0"]["evaluations"][0])


@pytest.mark.full
@pytest.mark.parametrize("speedup", [0.75, 2.0])
def test_under_a_schedule_a_row_is_trained_anew_to_equal_time(tmp_path, speedup):
    routes = "method: tread, routes: 1:2@0.5, schedule: {until: 0.5},"
    plan = planned(tmp_path, SUITE.replace("method: tread, routes: 1:2@0.5,", routes))
    found, _ = run(plan, tmp_path / "run", {"dense": 1.0, "routed": speedup}, rows=("dense", "routed"))
    routed = found["routed 0"]
    iteration = routed["equal_time"]["iteration"]

    # There, it is what a row of that length is: its last steps are dense.
    row = f"{routes} training: {{iterations: {iteration}}}, metrics: {{at: [{iteration}]}}"
    alone = SUITE.split("rows:")[0] + f"rows:\n  routed: {{{row}}}\ntiming: {{pairs: 0}}\n"
    (only,) = run(planned(tmp_path, alone), tmp_path / "alone")[0].values()
    assert measured(routed["at_equal_time"]) == measured(only["evaluations"][0])
    assert routed["at_equal_time"]["training_macs"] == only["evaluations"][0]["training_macs"]


def measured(evaluation):
    return {key: value for key, value in evaluation.items() if key not in ("seconds", "train_seconds", "training_macs")}


@pytest.mark.full
def test_seeds_that_are_added_later_are_evaluated_where_the_others_were(plan, tmp_path):
    run(plan, tmp_path / "run", {"dense": 1.0, "routed": 0.75, "smaller": 1.0})
    more = load_plan(tmp_path / "toy.yaml", ["seeds=2"])
    found, _ = run(more, tmp_path / "run", {"dense": 1.0, "routed": 0.5, "smaller": 1.0})
    assert [found[f"routed {seed}"]["at_equal_time"]["iteration"] for seed in (0, 1)] == [30, 30]

    # Begun afresh, they are evaluated where the new steps say.
    found, _ = run(more, tmp_path / "run", {"dense": 1.0, "routed": 0.5}, fresh=True, rows=("routed",))
    assert [found[f"routed {seed}"]["at_equal_time"]["iteration"] for seed in (0, 1)] == [20, 20]


@pytest.mark.full
def test_a_reference_that_is_not_trained_is_timed_and_a_part_of_a_run_times_nothing(plan, tmp_path):
    found, said = run(plan, tmp_path / "run", rows=("routed",))
    assert [*found] == ["routed 0"] and found["routed 0"]["at_equal_time"]["fid"] > 0
    assert any("measuring speed and memory, one row at a time: 2 to do" in line for line in said)
    _, said = run(plan, tmp_path / "run")
    assert any("one row at a time: 1 to do" in line for line in said)  # `smaller`; the others were timed
    _, said = run(plan, tmp_path / "part", shard=Shard(1, 1))
    assert "not evaluated at equal time: a part of a run does not measure the speed of its steps" in said
    found, _ = run(plan, tmp_path / "part")
    assert all(cell["equal_time"] is None and cell["timing"] for cell in found.values())
