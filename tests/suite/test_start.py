"""Trainings that start from weights that another row has trained."""

from __future__ import annotations

import re
import shutil

import pytest
import torch
from safetensors.torch import load_file

from tests.run_folders import begun, new_folder, planned, quiet, train_all
from tests.toy_suite import write_suite
from tread_bench.cell.open import Job
from tread_bench.cell.run import run_cell
from tread_bench.core.problems import SuiteError
from tread_bench.core.stored.documents import WeightsRef
from tread_bench.runner.runner import placed
from tread_bench.suite.load import load_plan

BASE = """\
name: toy
seeds: [1]
base:
  backbone: {name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}
  training: {iterations: 8, batch: 8, learning_rate: 1e-2, checkpoint_every: 2}
  sampling: {steps: 2}
  metrics: {generate: false, validation_samples: 8, similarity_samples: 4}
timing: {pairs: 0}
rows:
  pretrained: {training: {iterations: 6, snapshots: [2]}}
"""
SUITE = f"""{BASE}
  tuned: {{training: {{start: pretrained}}, metrics: {{at: [0, 8]}}}}
  routed: {{training: {{start: pretrained, budget: {{macs_of: tuned}}}}, method: tread, routes: "1:2@0.5"}}
  early: {{training: {{start: {{row: pretrained, iteration: 2}}}}}}
  judged: {{evaluate: routed}}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return planned(tmp_path_factory.mktemp("suite"), SUITE)


@pytest.fixture(scope="module")
def folder(plan, tmp_path_factory):
    """The run folder after all cells, in the order in which a run starts them."""
    folder = begun(tmp_path_factory.mktemp("start") / "run", plan, SUITE)
    return train_all(folder, plan)


def outcome(plan, folder, row):
    (cell,) = plan.rows[row]
    found = folder.record(cell.id)
    assert found.status == "done", found.reason
    return found


def test_a_training_names_the_weights_that_it_starts_from_and_its_dense_twin(plan):
    rows = {name: cells[0] for name, cells in plan.rows.items()}
    source = rows["pretrained"].id
    assert rows["tuned"].sources == {"start": WeightsRef(cell=source, iteration=6)}
    assert rows["early"].sources == {"start": WeightsRef(cell=source, iteration=2)}
    assert rows["routed"].reference == rows["tuned"].id == rows["tuned"].reference
    waves = [sorted(cell.row for cell in wave) for wave in placed(plan.cells)]
    assert waves == [["pretrained"], ["early", "routed", "tuned"], ["judged"]]
    assert rows["routed"].cell.training.iterations > 8  # the same MACs


READERS = """
  alone: {training: {batch: 4}}
  judged: {evaluate: tuned}
  guided:
    evaluate: alone
    sampling: {guidance: {name: autoguidance, row: tuned}, guidance_scale: 2}
"""
TUNED = f"{BASE}  tuned: {{training: {{start: pretrained}}}}"


def assert_other_ids(plans, *rows):
    """Their cells are written alike."""
    for row in rows:
        (one,), (other,) = (plan.rows[row] for plan in plans)
        assert (other.cell, other.id != one.id) == (one.cell, True)


def test_what_weights_were_trained_with_is_part_of_the_identity_of_all_that_reads_them(tmp_path):
    text = f"{TUNED}{READERS}"
    plans = [planned(tmp_path, text), planned(tmp_path, text.replace("iterations: 6", "iterations: 6, warmup: 1"))]
    assert_other_ids(plans, "tuned", "judged", "guided")


def test_no_other_id_depends_on_what_weights_were_trained_with(plan):
    keys = {cell.row: cell.row_key for cell in plan.cells if cell.cell.trains}  # finished cells are found by them
    assert keys == {"pretrained": "b8f988dd8f", "tuned": "707a8acd7d", "routed": "505c5e0d64", "early": "b859f34833"}


ELSEWHERE = """
  continued: {{training: {{start: {{row: tuned, run: '{run}'}}}}}}
  judged: {{evaluate: {{row: tuned, run: '{run}'}}}}
  guided:
    evaluate: {{row: alone, run: '{run}'}}
    sampling: {{guidance: {{name: autoguidance, row: tuned}}, guidance_scale: 2}}
"""


def test_a_run_replaced_by_one_that_trained_otherwise_changes_the_ids_of_all_that_reads_it(tmp_path):
    reading = f"{BASE}{ELSEWHERE.format(run=tmp_path / 'run')}"
    plans = []
    for text in (f"{TUNED}{READERS}", f"{TUNED}{READERS}".replace("timing:", "compute: {autocast: bfloat16}\ntiming:")):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        begun(tmp_path / "run", planned(tmp_path, text), text)
        plans.append(planned(tmp_path, reading))
    assert_other_ids(plans, "continued", "judged", "guided")


def test_the_id_of_a_cell_that_reads_another_run_does_not_depend_on_the_other_seeds(tmp_path):
    text = TUNED.replace("seeds: [1]", "seeds: [0, 1]")
    begun(tmp_path / "run", planned(tmp_path, text), text)
    reading = f"{BASE}  continued: {{training: {{start: {{row: tuned, run: '{tmp_path / 'run'}'}}}}}}\n"
    (alone,) = planned(tmp_path, reading).rows["continued"]
    _, second = planned(tmp_path, reading.replace("seeds: [1]", "seeds: [0, 1]")).rows["continued"]
    assert alone.id == second.id


def test_a_row_of_another_run_that_started_from_weights_itself_can_be_gone_on_with(plan, folder, tmp_path):
    start = f"{{row: tuned, run: '{folder.root}'}}"
    text = f"{BASE}  continued: {{training: {{start: {start}}}, metrics: {{at: [0, 8]}}}}\n"
    here = planned(tmp_path, text)
    (cell,) = here.rows["continued"]
    source = WeightsRef(cell=plan.rows["tuned"][0].id, iteration=8, run=str(folder.root))
    assert cell.sources == {"start": source}
    record = run_cell(begun(tmp_path / "run", here, text, [cell]).root, cell.id, 1, quiet)
    assert record.status == "done", record.reason
    assert record.evaluations[0].validation_loss == outcome(plan, folder, "tuned").last.validation_loss


@pytest.mark.parametrize(("dense", "moment"), [("tuned", 6), ("early", 0.34)])
def test_a_budget_names_a_row_with_the_same_start_however_it_is_written(dense, moment, tmp_path):
    routed = f"start: {{row: pretrained, iteration: {moment}}}, budget: {{macs_of: {dense}}}"
    text = SUITE.replace("start: pretrained, budget: {macs_of: tuned}", routed).replace(", metrics: {at: [0, 8]}", "")
    rows = load_plan(write_suite(tmp_path, text)).rows
    assert rows["routed"][0].reference == rows[dense][0].id


def test_at_its_start_the_network_is_the_one_that_was_trained(plan, folder):
    source, tuned = outcome(plan, folder, "pretrained"), outcome(plan, folder, "tuned")
    assert tuned.initial_weights_sha256 == outcome(plan, folder, "routed").initial_weights_sha256
    assert tuned.initial_weights_sha256 not in (source.initial_weights_sha256, source.final_weights_sha256)  # averaged
    first, last = tuned.evaluations
    assert (first.iteration, first.training_macs, first.train_seconds) == (0, 0, 0)
    assert first.validation_loss == source.last.validation_loss != last.validation_loss
    assert outcome(plan, folder, "judged").last.validation_loss == outcome(plan, folder, "routed").last.validation_loss


def test_every_weight_starts_as_it_was_kept(plan, folder):
    kept = load_file(folder.cell(plan.rows["pretrained"][0].id) / "weights" / "2.safetensors")
    network = Job.open(folder.root, plan.rows["early"][0].id).trainer().network
    weights = {f"backbone.{name}": tensor for name, tensor in network.backbone.state_dict().items()}
    assert weights.keys() == kept.keys()
    assert all(torch.equal(weights[name], kept[name]) for name in kept)


def test_killed_and_resumed_it_ends_with_the_same_weights(plan, folder, tmp_path):
    (cell,) = plan.rows["tuned"]
    whole = outcome(plan, folder, "tuned")
    shutil.copytree(folder.root, tmp_path / "run")
    again = new_folder(tmp_path / "run")
    own = again.cell(cell.id)
    (own / "record.json").unlink()
    for path in own.glob("checkpoints/step-*[468].*"):
        path.unlink()
    run_cell(again.root, cell.id, 1, quiet)
    found = again.record(cell.id)
    assert found.final_weights_sha256 == whole.final_weights_sha256
    assert [e.validation_loss for e in found.evaluations] == [e.validation_loss for e in whole.evaluations]


EARLY = "{row: pretrained, iteration: 2}"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("training: {start: pretraned}", "unknown trained row 'pretraned'; did you mean 'pretrained'?"),
        ("training: {start: {row: pretrained, iteration: 3}}", "training.start.iteration 3: row 'pretrained' keeps"),
        ("training: {start: pretrained}, backbone: {hidden: 32}", "'pretrained' has another network: its weights fit"),
        ("training: {start: pretrained}, objective: edm", "'pretrained' was trained for another objective"),
        ("training: {start: pretrained}, method: sprint, routes: ['1:2@0.5']", "method sprint of this row is more"),
        ("training: {budget: {macs_of: tuned}}", "unknown trained row 'tuned'; known: pretrained"),
        ("training: {start: tuned}", "'tuned' starts from other weights itself"),
        ("metrics: {at: [0, 8]}", "must ascend and lie in 1..8"),
        (
            f"training: {{start: {EARLY}, budget: {{macs_of: tuned}}}}",
            "which the budget names, starts from other weights",
        ),
    ],
)
def test_what_it_cannot_start_from_is_refused(tmp_path, row, message):
    with pytest.raises(SuiteError) as refused:
        planned(tmp_path, f"{BASE}  tuned: {{training: {{start: pretrained}}}}\n  wrong: {{{row}}}\n")
    assert re.search(re.escape(message), str(refused.value))
