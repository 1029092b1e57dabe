"""Learning rates that a run chooses: by its candidates alone, whatever interrupts it, and never among the study."""

from __future__ import annotations

import json
import re

import pytest
from pandas import read_csv

from tests.command_line import tread_bench
from tests.toy_suite import METRICS, results

CANDIDATES = (1e-3, 4e-3, 1.6e-2)
SUITE = f"""\
name: toy
seeds: 2
base:
  backbone: {{name: DiT, depth: 3, hidden: 16, heads: 2, patch: 2}}
  training: {{iterations: 30, batch: 16, learning_rate: 1e-3}}
  sampling: {{steps: 2}}
  metrics: {{{METRICS}}}
rows:
  dense: {{}}
  routed: {{method: tread, routes: 1:1@0.5, training: {{budget: {{macs_of: dense}}}}}}
tune: {{candidates: {list(CANDIDATES)}, seeds: 1}}
timing: {{pairs: 0}}
"""
MORE = ("--set", "tune.candidates=[1e-3,4e-3,1.6e-2,6.4e-2]")
NUM_TUNING, NUM_STUDY = 6, 4


def records(out):
    """By cell."""
    return {path.parent.name: json.loads(path.read_text()) for path in out.glob("cells/*/record.json")}


def of_role(found, is_tuning):
    return {cell: record for cell, record in found.items() if (record.get("role") == "tuning") is is_tuning}


def test_the_plan_says_what_share_of_the_training_the_candidates_are(suite):
    said = tread_bench("plan", suite).stdout
    assert "6 cells choose learning rates: 43% of all training MACs" in said  # half a training each, beside four whole


def test_each_row_is_studied_at_the_rate_of_its_lowest_loss(whole):
    tuning, study = (of_role(records(whole), is_tuning) for is_tuning in (True, False))
    assert (len(tuning), len(study)) == (NUM_TUNING, NUM_STUDY)
    for row in ("dense", "routed"):
        of_row = [record for record in tuning.values() if record["row"].startswith(f"{row} lr=")]
        best = min(of_row, key=lambda record: record["evaluations"][-1]["validation_loss"])
        chosen = {record["config"]["training"]["learning_rate"] for record in study.values() if record["row"] == row}
        assert chosen == {best["config"]["training"]["learning_rate"]}
    seeds = [{record["seed"] for record in part.values()} for part in (tuning, study)]
    assert seeds == [{1_000_000}, {0, 1}]


def test_candidates_train_for_their_share_and_are_in_no_table(whole):
    found = records(whole)
    lengths = {record["row"]: record["config"]["training"]["iterations"] for record in of_role(found, False).values()}
    for record in of_role(found, is_tuning=True).values():
        row, _, _ = record["row"].partition(" lr=")
        assert record["config"]["training"]["iterations"] == round(lengths[row] / 2)
    table = read_csv(whole / "results.csv")
    assert set(table.cell) == set(of_role(found, is_tuning=False))
    assert set(table.tuned) <= {"best of 3", "edge of 3"}

    # The page has the candidates, their cost, and what extends them.
    page = (whole / "index.html").read_text()
    assert re.search(rf"{NUM_TUNING} cells, [^,]+ training MACs, 43.% of the total", page)
    assert (whole / "figures" / "tuning.svg").exists()
    assert ("tune.candidates=[" in page) is ("edge of 3" in set(table.tuned))


@pytest.mark.full
def test_more_candidates_keep_what_is_measured(whole, suite, tmp_path):
    out = tmp_path / "run"
    assert tread_bench("run", suite, "--out", out).returncode == 0
    before = results(out)
    done = tread_bench("run", suite, "--out", out, *MORE)
    assert done.returncode == 0, done.stderr
    after = results(out)
    assert before.keys() <= after.keys() and len(of_role(records(out), is_tuning=True)) == NUM_TUNING + 2
    for cell, record in of_role(before, is_tuning=True).items():
        assert after[cell] == record
    assert set(read_csv(out / "results.csv").tuned) <= {"best of 4", "edge of 4"}


@pytest.mark.full
def test_shards_run_their_candidates_and_then_their_study(whole, suite, tmp_path):
    out = tmp_path / "run"
    first = tread_bench("run", suite, "--out", out, "--shard", "1/2")
    assert first.returncode == 1 and "when all parts have ended, run this command again" in first.stderr
    for part in ("2/2", "1/2", "2/2"):
        tread_bench("run", suite, "--out", out, "--shard", part)
    assert tread_bench("run", suite, "--out", out).returncode == 0
    assert results(out) == results(whole)
