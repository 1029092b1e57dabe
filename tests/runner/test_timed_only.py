"""Rows with `training.iterations: 0`: nothing is trained or evaluated, costs, speed and memory are measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from pandas import read_csv

from tests.toy_suite import finished_run, write_suite
from tread_bench.core.numbers.costs import cell_cost, expected_work
from tread_bench.core.problems import SuiteError
from tread_bench.core.stored.records import Record
from tread_bench.suite.load import load_plan
from tread_bench.suite.plan import disk_bytes

SUITE = """\
name: toy
base:
  data: {name: random_latents, image_size: 8, count: 20}
  training: {iterations: 0, batch: 4}
  backbone: {name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}
rows:
  dense: {}
  routed: {method: tread, routes: 1:2@0.5}
timing: {pairs: 2, warmup: 1}
"""


@pytest.fixture(scope="module")
def finished(suite, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "toy"
    assert "training" not in finished_run(suite, out).stderr
    return out


def records(out: Path) -> list[Record]:
    return [Record.model_validate_json(line) for line in (out / "records.jsonl").read_text().splitlines()]


def test_a_cell_has_costs_speed_and_memory_and_nothing_else(suite, finished):
    planned = {cell.id: cell for cell in load_plan(suite).cells}
    found = records(finished)
    assert {one.cell for one in found} == planned.keys() and len(found) == 2
    for one in found:
        assert one.status == "done" and one.cost == cell_cost(planned[one.cell].cell)
        assert one.timing and one.timing.speedup > 0 and one.timing.peak_memory_mib and one.timing.batch == 4
        assert one.reference == planned[one.cell].reference != ""
        assert not (one.evaluations or one.weights or one.train_loss or one.similarity or one.final_weights_sha256)
        assert one.train_seconds is None
    assert not list(finished.glob("cells/*/checkpoints/*")) and not list(finished.glob("cells/*/weights/*"))

    # Its table and its page are on speed alone.
    table = read_csv(finished / "results.csv")
    assert (table.speedup > 0).all() and table.fid.isna().all() and table.iteration.isna().all()
    assert "Nothing was trained or evaluated" in (finished / "index.html").read_text()


def test_neither_work_nor_weights_are_planned_nor_trained_by_a_smoke_run(suite):
    plan = load_plan(suite)
    assert all(planned.cell.is_timed_only for planned in plan.as_smoke().cells)
    for planned in plan.cells:
        assert expected_work(planned.cell) == (0, 0)
        assert not planned.cell.trains and planned.is_timed
        assert disk_bytes(planned, 10**9) < 2**21


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["metrics.at=[4]"], "metrics.at [4]: must ascend and lie in 1..0 (training.iterations)"),
        (["training.snapshots=[1]"], "training.snapshots 1: must lie in 1..0 (training.iterations)"),
        (["timing.pairs=0"], "nothing of it would be measured; time 2 pairs or more, or train it"),
        (["training.iterations=-1"], "must be greater than or equal to 0"),
    ],
)
def test_what_needs_training_is_a_mistake(overrides, said, suite):
    with pytest.raises(SuiteError) as error:
        load_plan(suite, overrides)
    assert said in str(error.value) and f"--set {overrides[0].partition('.')[0]}" in str(error.value)


def test_what_it_does_not_train_cannot_be_evaluated(suite, tmp_path):
    text = SUITE.replace("timing:", "  judged: {evaluate: dense}\ntiming:")
    with pytest.raises(SuiteError, match="unknown trained row 'dense'"):
        load_plan(write_suite(tmp_path, text), ["metrics.generate=false"])
