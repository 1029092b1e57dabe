"""The guidance scale of a row: chosen by FID on the tuning seeds, or given beside others."""

from __future__ import annotations

import csv
import json
from statistics import fmean

import pytest

from tests.command_line import tread_bench
from tests.toy_suite import FEW_SAMPLES, write_suite
from tread_bench.core.problems import SuiteError
from tread_bench.suite.load import load_plan

RATES, SCALES = (1e-3, 4e-3, 1.6e-2), (1.0, 2.0, 4.0)
GUIDED = f"""\
name: toy
seeds: 1
base:
  backbone: {{name: DiT, depth: 3, hidden: 16, heads: 2, patch: 2}}
  training: {{iterations: 20, batch: 7, learning_rate: 1e-3}}
  sampling: {{steps: 2, guidance: cfg, guidance_scale: 1.5}}
  metrics: {{{FEW_SAMPLES}}}
rows:
  dense: {{}}
  routed: {{method: tread, routes: 1:1@0.5}}
timing: {{pairs: 0}}
"""
TUNED = f"{GUIDED}tune: {{candidates: {list(RATES)}, guidance_scales: {list(SCALES)}, seeds: 2}}\n"


def run(folder, text):
    out = folder / "run"
    folder.mkdir(exist_ok=True)
    done = tread_bench("run", write_suite(folder, text), "--out", out)
    assert done.returncode == 0, done.stderr
    return out, [json.loads(path.read_text()) for path in sorted(out.glob("cells/*/record.json"))]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    return run(tmp_path_factory.mktemp("tuned"), TUNED)


def test_each_row_samples_at_the_scale_of_lowest_fid_at_its_best_rate(tuned):
    out, records = tuned
    with open(out / "results.csv", newline="") as file:
        lines = {line["row"]: line for line in csv.DictReader(file)}
    for study in (record for record in records if record.get("role") != "tuning"):
        rate, scale = study["config"]["training"]["learning_rate"], study["config"]["sampling"]["guidance_scale"]
        at_rate = [record for record in records if record["row"] == f"{study['row']} lr={rate:g}"]
        assert {record["seed"] for record in at_rate} == {1_000_000, 1_000_001}
        tried = [{one["scale"]: one["fid"] for one in record["evaluations"][-1]["other_scales"]} for record in at_rate]
        means = {value: fmean(fids[value] for fids in tried) for value in SCALES}
        assert len(set(means.values())) == len(SCALES) and scale == min(means, key=means.get)
        assert "other_scales" not in study["evaluations"][-1]
        line = lines[study["row"]]
        assert float(line["guidance_scale"]) == scale
        assert line["tuned_scale"] == ("edge of 3" if scale in (SCALES[0], SCALES[-1]) else "best of 3")


def test_the_page_draws_the_scales_and_says_what_extends_them(tuned):
    out, _ = tuned
    page = (out / "index.html").read_text()
    assert 'id="guidance_scales"' in page and (out / "figures" / "guidance_scales.svg").exists()
    assert "guidance scale is the one of lowest FID of 3" in page
    with open(out / "results.csv", newline="") as file:
        at_edge = any(line["tuned_scale"] == "edge of 3" for line in csv.DictReader(file))
    assert ("tune.guidance_scales=[" in page) is at_edge


def test_fid_at_another_scale_is_that_of_a_cell_that_samples_there(tmp_path):
    """Of the same weights, bit for bit; scales beside the own one change no other figure."""
    text = GUIDED.replace("  routed: {method: tread, routes: 1:1@0.5}\n", "")
    _, (beside,) = run(tmp_path / "beside", text.replace("metrics: {", "metrics: {other_scales: [1, 1.5, 3], "))
    _, (there,) = run(tmp_path / "there", text.replace("guidance_scale: 1.5", "guidance_scale: 3"))
    _, (own,) = run(tmp_path / "own", text)
    (end,), (end_there,), (end_own,) = (record["evaluations"] for record in (beside, there, own))
    assert [one["scale"] for one in end["other_scales"]] == [1, 1.5, 3]
    assert end["other_scales"][2]["fid"] == end_there["fid"] != end["fid"] == end_own["fid"]
    assert end["other_scales"][1]["fid"] == end["fid"]
    assert end["samples_sha256"] == end_own["samples_sha256"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("guidance: cfg, guidance_scale: 1.5", ""), "this row is not guided; add sampling.guidance"),
        (("dense: {}", "dense: {sampling.guidance_scale: 3}"), "guidance_scale has no effect: tune.guidance_scales"),
        (("metrics: {", "metrics: {generate: false, "), "it is chosen by FID, and metrics.generate is false"),
        (("[1.0, 2.0, 4.0]", "[1, 2]"), "the best needs a worse one on both sides"),
        (("cfg, guidance_scale", "{name: autoguidance, row: routed}, guidance_scale"), "reads other weights"),
    ],
)
def test_mistakes_are_refused(tmp_path, change, said):
    assert change[0] in TUNED
    with pytest.raises(SuiteError, match=said):
        load_plan(write_suite(tmp_path, TUNED.replace(*change)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("guidance: cfg, guidance_scale: 1.5", ""), "the cell is not guided"),
        (("metrics: {", "metrics: {generate: false, "), "generates no images"),
    ],
)
def test_other_scales_of_nothing_are_refused(tmp_path, change, said):
    text = GUIDED.replace("metrics: {", "metrics: {other_scales: [3], ").replace(*change)
    with pytest.raises(SuiteError, match=said):
        load_plan(write_suite(tmp_path, text))
