"""The width of a row's average: chosen on the tuning seeds, or given; a broken run is resumed with the same bits."""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import os
import signal
import subprocess

import pytest

from tests.command_line import command, figures, tread_bench, wait_for
from tests.toy_suite import FEW_SAMPLES, write_suite

RATES, WIDTHS = (1e-3, 4e-3, 1.6e-2), (0.03, 0.08, 0.2)
AVERAGED = f"""\
name: toy
seeds: 1
base:
  backbone: {{name: DiT, depth: 3, hidden: 16, heads: 2, patch: 2}}
  training: {{iterations: 30, batch: 7, learning_rate: 1e-3, checkpoint_every: 7, averages: {{snapshots: 8}}}}
  sampling: {{steps: 2}}
  metrics: {{{FEW_SAMPLES}}}
rows:
  dense: {{}}
  routed: {{method: tread, routes: 1:1@0.5}}
timing: {{pairs: 0}}
"""
TUNED = f"{AVERAGED}tune: {{candidates: {list(RATES)}, widths: {list(WIDTHS)}, seeds: 1}}\n"
GIVEN = AVERAGED.replace("metrics: {", "metrics: {average_width: 0.07, other_widths: [0.03, 0.15], at: [11, 30], ")


def run(folder, text, *arguments):
    out = folder / "run"
    done = tread_bench("run", write_suite(folder, text), "--out", out, *arguments)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    return run(tmp_path_factory.mktemp("tuned"), TUNED)


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    return run(tmp_path_factory.mktemp("given"), GIVEN)


def records(out):
    return [json.loads(path.read_text()) for path in sorted(out.glob("cells/*/record.json"))]


def lines(out):
    with open(out / "results.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_each_row_is_evaluated_at_the_pair_of_lowest_loss(tuned):
    found = records(tuned)
    tuning = [record for record in found if record.get("role") == "tuning"]
    assert len(tuning) == 2 * len(RATES) and {record["seed"] for record in tuning} == {1_000_000}
    for study in (record for record in found if record.get("role") != "tuning"):
        pairs = {}
        for record in tuning:
            if record["row"].startswith(f"{study['row']} lr="):
                (end,) = record["evaluations"]
                rate = record["config"]["training"]["learning_rate"]
                pairs |= {(rate, one["width"]): one["validation_loss"] for one in end["other_widths"]}
        assert pairs.keys() == set(itertools.product(RATES, WIDTHS))
        chosen = study["config"]["training"]["learning_rate"], study["config"]["metrics"]["average_width"]
        assert chosen == min(pairs, key=pairs.get)
        assert study["evaluations"][-1]["average_correlation"] > 0.99
        assert "other_widths" not in study["evaluations"][-1]


def test_snapshots_stay_with_the_study_alone(tuned):
    found = {path.parent.parent.name for path in tuned.glob("cells/*/averages/*")}
    assert found == {record["cell"] for record in records(tuned) if record.get("role") != "tuning"}
    assert len(list(tuned.glob("cells/*/averages/*.safetensors"))) == 2 * 8


def test_the_table_and_the_page_say_which_width_and_whether_it_is_at_an_edge(tuned):
    widths = {record["row"]: record["config"]["metrics"].get("average_width") for record in records(tuned)}
    found = lines(tuned)
    for line in found:
        width = widths[line["row"]]
        assert float(line["average_width"]) == width
        assert line["tuned_width"] == ("edge of 3" if width in (WIDTHS[0], WIDTHS[-1]) else "best of 3")
    page = (tuned / "index.html").read_text()
    assert 'id="average_widths"' in page and (tuned / "figures" / "average_widths.svg").exists()
    assert "its best of 3 learning rates and 3 widths of the averaged weights" in page
    assert ("tune.widths=[" in page) is any(line["tuned_width"] == "edge of 3" for line in found)


def test_a_given_width_is_evaluated_and_others_at_the_end(given):
    for record in records(given):
        first, last = record["evaluations"]
        assert "other_widths" not in first and 0.9 < first["average_correlation"] <= 1
        assert [one["width"] for one in last["other_widths"]] == [0.03, 0.15]
        losses = {last["validation_loss"], *(one["validation_loss"] for one in last["other_widths"])}
        assert len(losses) == 3 and all(one["fid"] is not None for one in last["other_widths"])
    assert {line["average_width"] for line in lines(given)} == {"0.07"}
    assert {line["tuned_width"] for line in lines(given)} == {""}
    assert 'id="average_widths"' in (given / "index.html").read_text()


def left(out):
    """Figures of all cells, and the snapshots' bits."""
    snapshots = {str(path.relative_to(out)): path.read_bytes() for path in out.glob("cells/*/averages/*")}
    found = {record["cell"]: figures(record) for record in records(out)}
    return found, {name: hashlib.sha256(content).hexdigest() for name, content in snapshots.items()}


@pytest.mark.slow
@pytest.mark.timeout(900)  # four runs one after the other, each of two processes that start together on a busy machine
@pytest.mark.parametrize("arguments", [(), ("--processes", 2)])
def test_a_run_that_was_killed_ends_with_the_same_bits(tmp_path, arguments):
    """Of two processes, the first one writes the snapshots, and both read them."""
    (tmp_path / "whole").mkdir()
    arguments = ("--rows", "routed", *arguments)
    whole = run(tmp_path / "whole", GIVEN, *arguments)
    out = tmp_path / "run"
    for count in (1, 6):
        with subprocess.Popen(
            command("run", write_suite(tmp_path, GIVEN), "--out", out, *arguments),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as runner:
            wait_for(lambda n=count: len(list(out.glob("cells/*/averages/*.safetensors"))) >= n)
            os.killpg(runner.pid, signal.SIGKILL)
    done = tread_bench("run", tmp_path / "toy.yaml", "--out", out, *arguments)
    assert done.returncode == 0, done.stderr
    assert left(out) == left(whole) and len(left(out)[1]) == 8
