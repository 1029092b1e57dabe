"""A hypothesis that a suite states before it runs: read, hashed into plan.json, and refused where it has changed."""

from __future__ import annotations

import json

import pytest

from tests.command_line import tread_bench
from tests.run_folders import CHOICES, new_folder
from tests.toy_suite import FEW_SAMPLES
from tread_bench.core.problems import SuiteError
from tread_bench.core.stored.files import StoreError, read_json
from tread_bench.runner.prepare import refuse_other_hypothesis, write_plan
from tread_bench.suite.load import load_plan

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


def plan_of(folder, more=STATED, overrides=()):
    path = folder / "suite.yaml"
    path.write_text(STUDY + more)
    return load_plan(path, overrides)


def test_it_is_hashed_into_the_run(tmp_path):
    root = tmp_path / "run"
    plan = plan_of(tmp_path)
    write_plan(plan, (), "", new_folder(root), CHOICES)
    written = read_json(root / "plan.json")["registered"]
    assert written["hypothesis"] == {"claim": "Routing pays.", "test": "onset", "margin": 1.1, "stop": 2}
    assert len(written["sha256"]) == 64
    other = plan_of(tmp_path, overrides=["hypothesis.stop=3"])
    write_plan(other, (), "", new_folder(tmp_path / "other"), CHOICES)
    assert read_json(tmp_path / "other" / "plan.json")["registered"]["sha256"] != written["sha256"]


def test_a_run_without_one_has_the_plan_that_it_had(tmp_path):
    write_plan(plan_of(tmp_path, more=""), (), "", new_folder(tmp_path / "run"), CHOICES)
    assert "registered" not in json.dumps(read_json(tmp_path / "run" / "plan.json"))


def test_the_plan_says_what_is_decided_before(tmp_path):
    (tmp_path / "suite.yaml").write_text(STUDY + STATED)
    said = tread_bench("plan", "suite.yaml", cwd=tmp_path).stdout
    as_json = json.loads(tread_bench("plan", "suite.yaml", "--json", cwd=tmp_path).stdout)["hypothesis"]
    assert as_json["hypothesis"]["claim"] == "Routing pays."
    assert f"hypothesis {as_json['sha256'][:10]}: Routing pays. (test onset, margin a ratio of 1.1, " in said


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            STATED,
            STATED.replace("1.1", "1.0"),
            "under the hypothesis .* now states the hypothesis [0-9a-f]{10}",
        ),
        (STATED, STATED.replace("pays", "pays off"), "'Routing pays off.'"),
        (STATED, "", "the suite now states no hypothesis"),
        ("", STATED, "started under no hypothesis"),
    ],
)
def test_another_one_is_refused_in_a_run_that_was_started(tmp_path, before, after, message):
    folder = new_folder(tmp_path / "run")
    refuse_other_hypothesis(plan_of(tmp_path, before), folder)  # a new folder takes any
    write_plan(plan_of(tmp_path, before), (), "", folder, CHOICES)
    refuse_other_hypothesis(plan_of(tmp_path, before), folder)
    with pytest.raises(StoreError, match=f"{message}.*give another --out"):
        refuse_other_hypothesis(plan_of(tmp_path, after), folder)


@pytest.mark.parametrize(
    ("written", "messages"),
    [
        ("{claim: '', test: onset, margin: 1, stop: 3}", ["hypothesis.claim"]),
        (
            "{claim: It pays., test: t-test, margin: 0.9, stop: 1}",
            ["known: onset", "hypothesis.margin", "hypothesis.stop"],
        ),
        ("{claim: It pays.}", ["hypothesis.test", "hypothesis.margin", "hypothesis.stop"]),
        ("It pays.", ["hypothesis"]),
    ],
)
def test_all_its_mistakes_are_said_at_once(tmp_path, written, messages):
    with pytest.raises(SuiteError) as refused:
        plan_of(tmp_path, f"hypothesis: {written}\n")
    assert all(message in str(refused.value) for message in messages), str(refused.value)
