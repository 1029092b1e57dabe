"""What --smoke makes of a suite: everything once, nothing longer than the suite has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tread_bench.suite.load import load_plan
from tread_bench.suite.plan import Plan

SUITE = """\
name: toy
base:
  backbone: {name: DiT, depth: 4, hidden: 8, heads: 1, patch: 2}
  training: {iterations: 100, batch: 32, snapshots: [25, 0.5, 99]}
  metrics: {num_samples: 128, validation_samples: 5}
rows:
  dense: {}
  longer: {training.iterations: 200, training.snapshots: [100]}
  scheduled: {method: tread, routes: 1:2@0.5, schedule: {warmup: 0.01, until: 0.99}}
  decaying: {training: {decay: {name: wsd, share: 0.05}}}
  timed: {training: {iterations: 0, snapshots: []}}
  routed: {method: tread, routes: 1:2@0.5, training: {snapshots: [], budget: {macs_of: dense}}}
  early: {evaluate: {row: dense, iteration: 25}}
  last: {evaluate: {row: dense, iteration: 100}}
  halfway: {evaluate: {row: longer, iteration: 100}}
  guided: {evaluate: longer, sampling: {guidance: {name: autoguidance, snapshot: 100}, guidance_scale: 2}}
timing: {pairs: 9, warmup: 9}
"""


@pytest.fixture
def smoke(tmp_path: Path) -> Plan:
    (tmp_path / "toy.yaml").write_text(SUITE)
    return load_plan(tmp_path / "toy.yaml").as_smoke()


def test_nothing_is_longer_than_the_suite_has_it(smoke: Plan) -> None:
    cells = {row: cells[0].cell for row, cells in smoke.rows.items()}
    training, metrics = cells["dense"].training, cells["dense"].metrics
    assert (training.iterations, training.batch, metrics.at, metrics.num_samples) == (4, 8, (2, 4), 32)
    assert metrics.validation_samples == 5
    assert (cells["scheduled"].schedule.warmup, cells["scheduled"].schedule.until) == (0.25, 0.75)
    assert cells["decaying"].training.decay.share == 0.5
    assert cells["timed"].is_timed_only and cells["routed"].training.iterations > 4
    assert (smoke.suite.timing.pairs, smoke.suite.timing.warmup) == (2, 1)


def test_weights_are_those_of_the_end_of_the_shorter_training(smoke: Plan) -> None:
    sources = {row: cells[0].sources for row, cells in smoke.rows.items()}
    found = {row: sources[row]["network"].iteration for row in ("early", "last", "halfway", "guided")}
    assert found == dict.fromkeys(found, 4)
    assert sources["guided"]["weak"].iteration == 4


def test_rows_that_differ_in_length_alone_are_no_mistake_of_a_smoke_run(tmp_path: Path) -> None:
    base = SUITE.partition("rows:")[0]
    (tmp_path / "toy.yaml").write_text(f"{base}matrix: {{training.iterations: [200, 300]}}\nseeds: [3, 4]\n")
    cells = load_plan(tmp_path / "toy.yaml").as_smoke().cells
    assert [cell.seed for cell in cells] == [3, 3]
    assert cells[0].row_key == cells[1].row_key and cells[0].id != cells[1].id
