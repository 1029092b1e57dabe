"""A suite that chooses learning rates: its candidates, what is known when, and what it refuses."""

from __future__ import annotations

import pytest

from tests.toy_suite import METRICS, toy_suite, write_suite
from tread_bench.cli.costs import plan_table
from tread_bench.core.problems import SuiteError
from tread_bench.suite.load import load_plan
from tread_bench.suite.resolve import Resolver

SUITE = toy_suite(40, 20, more="tune: {}\n").replace("  dense: {}", "  dense: {}\n  again: {seed_group: 1}")


@pytest.fixture
def plan(tmp_path):
    return load_plan(write_suite(tmp_path, SUITE))


def test_every_row_has_the_same_candidates_and_dense_rows_share_them(plan):
    assert {tuple(candidates) for candidates in plan.tuning.values()} == {(2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3)}
    assert plan.tuning["dense"] == plan.tuning["again"]
    cells = plan.tuning_cells(plan.tuning)
    assert len(cells) == 20
    assert {cell.seed for cell in cells} == {1_000_000, 1_000_001}
    assert {cell.cell.training.iterations for cell in cells} == {20}


def test_a_study_is_planned_at_its_rates_and_paired_across_them(plan):
    known = plan.with_choices({"dense": 2e-3, "again": 2e-3, "routed": 4e-3})
    assert {cell.row: cell.cell.training.learning_rate for cell in known.cells}["routed"] == 4e-3
    assert {cell.reference for cell in known.rows["routed"]} == {cell.id for cell in known.rows["dense"]}
    part = plan.with_choices({"routed": 4e-3})
    assert [cell.id for cell in part.cells] == [cell.id for cell in known.rows["routed"]]
    assert part.pending == 4


def test_more_candidates_keep_the_ids_of_those_that_are_measured(tmp_path, plan):
    wider = load_plan(write_suite(tmp_path, SUITE), ["tune.candidates=[1e-3, 2e-3, 4e-3, 8e-3]"])
    assert wider.tuning["dense"][4e-3] == plan.tuning["dense"][4e-3]


def test_chosen_rates_are_filled_in_without_another_expansion(tmp_path, monkeypatch):
    guided = "sampling: {guidance: {name: autoguidance, row: dense}, guidance_scale: 2}"
    text = SUITE.replace("again: {seed_group: 1}", f"judged: {{evaluate: routed, {guided}}}")
    given = load_plan(write_suite(tmp_path, text), ["tune=null", "training.learning_rate=2e-3"])
    plan = load_plan(write_suite(tmp_path, text))
    monkeypatch.setattr(Resolver, "resolve", None)
    chosen = plan.with_choices({"dense": 2e-3, "routed": 2e-3})
    assert [cell.id for cell in chosen.cells] == [cell.id for cell in given.cells]
    assert [cell.sources for cell in chosen.cells] == [cell.sources for cell in given.cells]
    assert [cell.cell.training for cell in chosen.cells] == [cell.cell.training for cell in given.cells]
    part = plan.with_choices({"routed": 2e-3})
    assert {cell.row for cell in part.cells} == {"routed"}  # what guides the judged one is not chosen yet
    assert (part.pending, part.planned) == (4, plan.planned)


LENGTHS = f"""\
name: toy
seeds: 2
base:
  backbone: {{name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}}
  training: {{batch: 16, learning_rate: 1e-3, decay: wsd}}
  metrics: {{{METRICS}}}
matrix: {{training.iterations: [40, 160]}}
rows:
  dense: {{}}
  routed: {{method: tread, routes: 1:2@0.5, training: {{budget: {{macs_of: dense}}}}}}
tune: {{candidates: [1e-3, 2e-3, 4e-3], seeds: 1, share: 1, shortest: true, check: [dense iterations=160]}}
"""


def test_rows_of_several_lengths_are_tuned_at_the_shortest(tmp_path):
    plan = load_plan(write_suite(tmp_path, LENGTHS))
    for row in ("dense", "routed"):
        short, long = (plan.tuning[f"{row} iterations={length}"] for length in (40, 160))
        assert short == long
    (short,) = plan.tuning["routed iterations=160"][2e-3]
    assert short.tunes == "routed iterations=40"
    assert short.cell.training.iterations == plan.rows["routed iterations=40"][0].cell.training.iterations
    assert plan.tuned_at("routed iterations=160") == "routed iterations=40"
    assert plan.tuned_at("routed iterations=40") == ""


def test_a_row_is_checked_at_its_own_length(tmp_path):
    plan = load_plan(write_suite(tmp_path, LENGTHS))
    assert list(plan.checks) == ["dense iterations=160"]
    checks = [cell for cells in plan.checks["dense iterations=160"].values() for cell in cells]
    assert [cell.cell.training.iterations for cell in checks] == [160] * 3
    assert {cell.id for cell in checks} <= {cell.id for cell in plan.all_cells}
    table = {row["row"]: row["tuning_cells"] for row in plan_table(plan)}
    assert sum(table.values()) == 3 * 2 + 3
    chosen = dict.fromkeys(plan.tuning, 0.002)
    first = plan.with_choices({"dense iterations=40": 2e-3})
    assert (first.tuning, first.planned) == (plan.tuning, plan.planned)
    settled = plan.with_choices(chosen)
    assert {cell.cell.training.learning_rate for cell in settled.cells} == {2e-3}
    assert settled.checks.keys() == plan.checks.keys()


@pytest.mark.parametrize(
    ("text", "change", "message"),
    [
        (SUITE, ("tune: {}", "tune: {candidates: [1, 2]}"), "the best needs a worse one on both sides"),
        (SUITE, ("seeds: 2\n", "seeds: [1000001]\n"), "every seed must lie below that; here 1000001"),
        (LENGTHS, ("seeds: 2\n", "seeds: [1000000]\n"), "give the study other seeds"),
        (SUITE, ("routed: {", "routed: {training: {learning_rate: 1}, "), "tune chooses it for every row"),
        (LENGTHS, ("shortest: true, ", ""), "check has no effect: rows have the best learning rate of their own"),
        (LENGTHS, ("[dense iterations=160]", "[dense]"), "unknown trained row 'dense'"),
        (LENGTHS, ("decay: wsd", "decay: linear"), "shortest has no effect: no rows differ in their length alone"),
    ],
)
def test_mistakes_are_refused(tmp_path, text, change, message):
    with pytest.raises(SuiteError, match=message):
        load_plan(write_suite(tmp_path, text.replace(*change)))
