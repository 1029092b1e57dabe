"""A hypothesis that a suite states before it runs: read, hashed into plan.json, and refused where it has changed."""

from __future__ import annotations

import json

import pytest

from tests.command_line import tread_bench
from tests.run_folders import new_folder, planned, ready
from tests.toy_suite import FEW_SAMPLES
from tread_bench.core.problems import SuiteError
from tread_bench.core.stored.files import StoreError, read_json
from tread_bench.runner.prepare import refuse_other_hypothesis

STUDY = f"""\
name: toy
seeds: 2
base:
  backbone: {{name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}}
  training: {{batch: 16, learning_rate: 1e-3}}
  sampling: {{steps: 2}}
  metrics: {{{FEW_SAMPLES}}}
matrix: {{training.iterations: [60, 120, 240]}}
rows:
  dense: {{}}
  routed: {{method: tread, routes: 1:2@0.5, training: {{budget: {{macs_of: dense}}}}}}
"""
STATED = "hypothesis: {claim: Routing pays., test: onset, margin: 1.1, stop: 2}\n"


def test_it_is_hashed_into_the_run_and_shown_by_its_plan(tmp_path):
    ready(tmp_path / "run", planned(tmp_path, STUDY))
    assert "registered" not in json.dumps(read_json(tmp_path / "run" / "plan.json"))
    ready(tmp_path / "other", planned(tmp_path, STUDY + STATED.replace("2}", "3}")))
    ready(tmp_path / "run", planned(tmp_path, STUDY + STATED))
    written, other = (read_json(tmp_path / root / "plan.json")["registered"] for root in ("run", "other"))
    assert written["hypothesis"] == {"claim": "Routing pays.", "test": "onset", "margin": 1.1, "stop": 2}
    assert len(written["sha256"]) == 64 and other["sha256"] != written["sha256"]

    # The plan says it before.
    said = tread_bench("plan", "toy.yaml", cwd=tmp_path).stdout
    assert json.loads(tread_bench("plan", "toy.yaml", "--json", cwd=tmp_path).stdout)["hypothesis"] == written
    assert f"hypothesis {written['sha256'][:10]}: Routing pays. (test onset, margin a ratio of 1.1, " in said


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (STATED, STATED.replace("1.1", "1.0"), "under hypothesis .* now states hypothesis [0-9a-f]{10}"),
        (STATED, STATED.replace("pays", "pays off"), "'Routing pays off.'"),
        (STATED, "", "the suite now states no hypothesis"),
        ("", STATED, "started under no hypothesis"),
    ],
)
def test_another_one_is_refused_in_a_run_that_was_started(tmp_path, before, after, message):
    plan = planned(tmp_path, STUDY + before)
    refuse_other_hypothesis(plan, new_folder(tmp_path / "new"))  # a new folder takes any
    folder = ready(tmp_path / "run", plan)
    refuse_other_hypothesis(plan, folder)
    with pytest.raises(StoreError, match=f"{message}.*give another --out"):
        refuse_other_hypothesis(planned(tmp_path, STUDY + after), folder)


def test_all_its_mistakes_are_said_at_once(tmp_path):
    with pytest.raises(SuiteError) as refused:
        planned(tmp_path, f"{STUDY}hypothesis: {{claim: '', test: t-test, margin: 0.9}}\n")
    for message in ("hypothesis.claim", "known: onset", "hypothesis.margin", "hypothesis.stop is missing"):
        assert message in str(refused.value)
