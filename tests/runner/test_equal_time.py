"""Where rows are evaluated at equal time: by steps that were timed before training, and written in plan.json."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.command_line import figures
from tests.toy_suite import METRICS, write_suite
from tread_bench.core.stored.records import EqualTime, Record, TimingFigures
from tread_bench.runner import runner
from tread_bench.runner.options import Options, Shard
from tread_bench.runner.speed import equal_time
from tread_bench.services.display import Lines
from tread_bench.suite.load import load_plan
from tread_bench.suite.plan import plan_table

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


@pytest.fixture
def plan(tmp_path):
    return load_plan(write_suite(tmp_path, SUITE), [])


def timed(speedup=1.0, dense_ms=100.0, wait_ms=0.0, batch=16):
    steps = {"step_times_ms": [dense_ms / speedup] * 2, "reference_step_times_ms": [dense_ms] * 2}
    return TimingFigures(
        **steps, step_time_ms=dense_ms / speedup, step_time_low_ms=1, step_time_high_ms=1, images_per_s=1,
        speedup=speedup, speedup_low=0.9 * speedup, speedup_high=1.1 * speedup, batch=batch, warmup=1,
        loop_time_ms=200.0, data_wait_share=wait_ms / 200,
    )  # fmt: skip


def timings_of(plan, **rows):
    return {plan.rows[name][0].row_key: timing for name, timing in rows.items()}


def test_in_pairs_it_is_the_references_iterations_times_the_speedup(plan):
    (row,) = plan.rows["routed"]
    found = equal_time(row, plan, timings_of(plan, dense=timed(), routed=timed(1.5, dense_ms=70.0)))
    assert found.iteration == 60
    assert (found.low, found.high) == pytest.approx((0.9 * 60, 1.1 * 60))


def test_the_wait_for_data_is_part_of_a_step(plan):
    (row,) = plan.rows["routed"]
    found = equal_time(row, plan, timings_of(plan, dense=timed(wait_ms=10.0), routed=timed(2.0, wait_ms=30.0)))
    assert found.iteration == round(40 * (100 + 10) / (50 + 30))
    assert found.low == pytest.approx(40 * 110 / (100 / 1.8 + 30))


def test_another_architecture_is_compared_by_its_seconds_and_has_no_interval(plan):
    (row,) = plan.rows["smaller"]
    found = equal_time(row, plan, timings_of(plan, dense=timed(), smaller=timed(1.01, dense_ms=60.6)))
    assert found == EqualTime(iteration=round(40 * 100 / 60))


def test_another_architecture_that_was_timed_in_turn_with_the_reference_has_an_interval(plan):
    (row,) = plan.rows["smaller"]
    label = plan.rows["dense"][0].cell.backbone.label
    own = timed(2.0, dense_ms=70.0).model_copy(update={"reference_backbone": label})
    found = equal_time(row, plan, timings_of(plan, dense=timed(), smaller=own))
    assert found.iteration == 80 and (found.low, found.high) == pytest.approx((0.9 * 80, 1.1 * 80))
    elsewhere = own.model_copy(update={"reference_backbone": "DiT (depth 9)"})
    found = equal_time(row, plan, timings_of(plan, dense=timed(), smaller=elsewhere))
    assert (found.iteration, found.low) == (round(40 * 100 / 35), None)


@pytest.mark.parametrize(
    ("written", "timed_with"),
    [
        ("training: *equal_cost", "dense"),
        ("training: {batch: 8, budget: {macs_of: dense}}", None),
        ("method: tread, routes: 1:2@0.5, schedule: {until: 0.75}, training: *equal_cost", None),
        ("training: {iterations: 40}", None),
    ],
    ids=["to its budget", "another batch", "two kinds of steps", "no budget"],
)
def test_a_network_of_another_size_is_timed_in_turn_with_the_row_of_its_budget(tmp_path, written, timed_with):
    plan = load_plan(
        write_suite(tmp_path, SUITE.replace("{depth: 3}, training: *equal_cost", f"{{depth: 3}}, {written}"))
    )
    (smaller,), (dense,), (routed,) = (plan.rows[name] for name in ("smaller", "dense", "routed"))
    assert plan.timed_with(smaller) is (dense if timed_with else None)
    assert plan.timed_with(dense) is plan.timed_with(routed) is None
    forward = {row["row"]: row for row in plan_table(plan)}
    macs = forward["dense" if timed_with else "smaller"]["forward_macs"] if "routes" not in written else None
    if macs:
        assert forward["smaller"]["ideal_speedup"] == macs / forward["smaller"]["forward_macs"]


def test_records_say_what_a_control_was_timed_with(plan, tmp_path):
    found, _ = run(plan, tmp_path / "run")
    records = {name: Record.model_validate(cell) for name, cell in found.items()}
    smaller, dense = records["smaller 0"], records["dense 0"]
    assert smaller.timing.reference_backbone == dense.backbone != smaller.backbone
    assert smaller.ideal_speedup == dense.cost.forward_macs / smaller.cost.forward_macs > 1
    assert smaller.equal_time.low < smaller.equal_time.high
    assert not any("reference_backbone" in found[name]["timing"] for name in ("dense 0", "routed 0"))
    assert records["routed 0"].ideal_speedup == records["routed 0"].cost.ideal_speedup


def test_a_routed_reference_takes_its_own_steps(plan):
    (row,) = plan.rows["smaller"]
    budget = row.cell.training.budget.model_copy(update={"macs_of": "routed"})
    cell = row.cell.model_copy(update={"training": row.cell.training.model_copy(update={"budget": budget})})
    row = replace(row, cell=cell)
    iterations = plan.rows["routed"][0].cell.training.iterations
    found = equal_time(row, plan, timings_of(plan, routed=timed(2.0), smaller=timed(dense_ms=40.0)))
    assert found == EqualTime(iteration=round(iterations * 50 / 40))


@pytest.mark.parametrize("known", [["dense"], ["routed"], []])
def test_without_both_timings_there_is_none(plan, known):
    (row,) = plan.rows["routed"]
    assert equal_time(row, plan, timings_of(plan, **dict.fromkeys(known, timed()))) is None


def scheduled(tmp_path, schedule, **also):
    keys = ", ".join([f"schedule: {{{schedule}}}", *(f"{key}: {value}" for key, value in also.items())])
    return load_plan(write_suite(tmp_path, SUITE.replace("routes: 1:2@0.5,", f"routes: 1:2@0.5, {keys},")), [])


def test_under_a_schedule_the_mean_of_routed_and_dense_steps_counts(tmp_path):
    plan = scheduled(tmp_path, "until: 0.75")
    found = equal_time(plan.rows["routed"][0], plan, timings_of(plan, dense=timed(), routed=timed(2.0)))
    assert found.iteration == round(40 * 100 / (0.75 * 50 + 0.25 * 100))


def test_steps_of_a_kind_that_is_not_timed_have_none(plan, tmp_path):
    timings = timings_of(plan, dense=timed())
    assert equal_time(plan.rows["dense"][0], plan, timings) is None
    rising = scheduled(tmp_path, "warmup: 0.5")
    with_loss = scheduled(tmp_path, "until: 0.5", auxiliary="[mae]")
    for other in (rising, with_loss):
        assert equal_time(other.rows["routed"][0], other, timings_of(other, dense=timed(), routed=timed())) is None


def run(plan, root, speedups=None, display=None, **options):
    """The run's records by row; with these speed-ups in place of measured ones, if they are given."""
    with pytest.MonkeyPatch.context() as patched:
        if speedups:
            timings = timings_of(plan, **{row: timed(speedup) for row, speedup in speedups.items()})
            patched.setattr(runner, "measure", lambda *arguments: timings)
        said = []
        runner.run(plan, SUITE, root, Options(**options), display or Lines(lambda text, **_: said.append(text)))
    cells = [json.loads(path.read_text()) for path in root.glob("cells/*/record.json")]
    return {f"{cell['row']} {cell['seed']}": cell for cell in cells}, said


def test_rows_are_evaluated_there_before_their_end_and_beyond_it_and_nothing_else_changes(plan, tmp_path):
    untimed = load_plan(write_suite(tmp_path, SUITE), ["timing.pairs=0"])
    plain, _ = run(untimed, tmp_path / "plain")
    speedups = {"dense": 1.0, "routed": 0.75, "smaller": 2.0}
    found, _ = run(plan, tmp_path / "run", speedups)
    assert {name: figures(cell) for name, cell in found.items()} == {n: figures(cell) for n, cell in plain.items()}
    assert found["dense 0"]["equal_time"] is None and found["dense 0"]["at_equal_time"] is None

    # Equal time comes before the end of the one, and after that of the other.
    assert found["routed 0"]["equal_time"]["iteration"] == found["routed 0"]["at_equal_time"]["iteration"] == 30
    assert found["smaller 0"]["config"]["training"]["iterations"] < 80 == found["smaller 0"]["equal_time"]["iteration"]

    assert not [*(tmp_path / "run").glob("cells/*/equal_time")]

    # There, a row is what a row of that length is.
    longer = SUITE.replace("training: *equal_cost", "training: {iterations: 80}, metrics: {at: [80]}")
    alone, _ = run(load_plan(write_suite(tmp_path, longer), ["timing.pairs=0"]), tmp_path / "longer", rows=("smaller",))
    assert measured(found["smaller 0"]["at_equal_time"]) == measured(alone["smaller 0"]["evaluations"][0])


@pytest.mark.full
@pytest.mark.parametrize("speedup", [0.75, 2.0])
def test_under_a_schedule_a_row_is_trained_anew_to_equal_time(tmp_path, speedup):
    plan = scheduled(tmp_path, "until: 0.5")
    found, _ = run(plan, tmp_path / "run", {"dense": 1.0, "routed": speedup}, rows=("dense", "routed"))
    routed = found["routed 0"]
    iteration = routed["equal_time"]["iteration"]

    # There, it is what a row of that length is: its last steps are dense.
    length = f"training: {{iterations: {iteration}}}, metrics: {{at: [{iteration}]}}"
    row = f"routes: 1:2@0.5, schedule: {{until: 0.5}}, {length}"
    alone = SUITE.split("rows:")[0] + f"rows:\n  routed: {{method: tread, {row}}}\ntiming: {{pairs: 0}}\n"
    (only,) = run(load_plan(write_suite(tmp_path, alone), []), tmp_path / "alone")[0].values()
    assert measured(routed["at_equal_time"]) == measured(only["evaluations"][0])
    assert routed["at_equal_time"]["training_macs"] == only["evaluations"][0]["training_macs"]


def measured(evaluation):
    return {key: value for key, value in evaluation.items() if key not in ("seconds", "train_seconds", "training_macs")}


@pytest.mark.full
def test_seeds_that_are_added_later_are_evaluated_where_the_others_were(plan, tmp_path):
    run(plan, tmp_path / "run", {"dense": 1.0, "routed": 0.75, "smaller": 1.0})
    more = load_plan(write_suite(tmp_path, SUITE), ["seeds=2"])
    found, _ = run(more, tmp_path / "run", {"dense": 1.0, "routed": 0.5, "smaller": 1.0})
    assert [found[f"routed {seed}"]["at_equal_time"]["iteration"] for seed in (0, 1)] == [30, 30]

    # Begun afresh, they are evaluated where the new steps say.
    found, _ = run(more, tmp_path / "run", {"dense": 1.0, "routed": 0.5}, fresh=True, rows=("routed",), agreed=True)
    assert [found[f"routed {seed}"]["at_equal_time"]["iteration"] for seed in (0, 1)] == [20, 20]


@pytest.mark.full
def test_some_rows_alone_are_timed_with_their_reference_which_is_not_trained(plan, tmp_path):
    found, said = run(plan, tmp_path / "run", rows=("routed",))
    assert [*found] == ["routed 0"] and found["routed 0"]["at_equal_time"]["fid"] > 0
    assert any("measuring speed and memory, one row at a time: 2 to do" in line for line in said)
    found, said = run(plan, tmp_path / "run")
    assert found.keys() == {"dense 0", "routed 0", "smaller 0"}
    assert any("one row at a time: 1 to do" in line for line in said)  # `smaller`; the others were timed


@pytest.mark.full
def test_a_part_of_a_run_says_that_it_leaves_equal_time_out(plan, tmp_path):
    _, said = run(plan, tmp_path / "run", shard=Shard(1, 1))
    assert "not evaluated at equal time: a part of a run does not measure the speed of its steps" in said
    found, _ = run(plan, tmp_path / "run")
    assert all(cell["equal_time"] is None and cell["timing"] for cell in found.values())
