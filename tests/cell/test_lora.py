"""Training of adapters alone: what changes, what is stored, and what is refused."""

from __future__ import annotations

import re
import shutil

import pytest
import torch
from safetensors.torch import load_file

from tests.run_folders import begun, new_folder, planned, quiet, train_all
from tread_bench.cell.numerics import resolve_choices
from tread_bench.cell.open import Job
from tread_bench.cell.run import run_cell
from tread_bench.core.problems import SuiteError
from tread_bench.suite import resolve

pytest.importorskip("peft")

BASE = """\
name: toy
seeds: [1]
base:
  backbone: {name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}
  training: {iterations: 8, batch: 8, learning_rate: 1e-2, checkpoint_every: 2}
  sampling: {steps: 2}
  metrics: {generate: false, validation_samples: 8, similarity_samples: 4}
timing: {pairs: 0}
compute: {kernels: {adaln: torch}}
rows:
  pretrained: {}
"""
SUITE = f"""{BASE}
  tuned:
    training: {{start: pretrained, lora: {{rank: 2}}, gradient_clip: 1}}
    metrics: {{at: [0, 8]}}
  routed: {{training: {{start: pretrained, lora: {{rank: 2}}}}, method: tread, routes: "1:2@0.5"}}
  judged: {{evaluate: tuned}}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return planned(tmp_path_factory.mktemp("suite"), SUITE)


@pytest.fixture(scope="module")
def folder(plan, tmp_path_factory):
    numerics = {"kernels": resolve_choices(plan.suite.compute, "cpu").numerics.kernels}
    folder = begun(tmp_path_factory.mktemp("lora") / "run", plan, SUITE, numerics=numerics)
    return train_all(folder, plan)


def outcome(plan, folder, row):
    (cell,) = plan.rows[row]
    found = folder.record(cell.id)
    assert found.status == "done", found.reason
    return found


def cell_folder(plan, folder, row):
    return folder.cell(plan.rows[row][0].id)


def test_it_starts_as_the_dense_network_and_ends_elsewhere(plan, folder):
    source, tuned, routed = (outcome(plan, folder, row) for row in ("pretrained", "tuned", "routed"))
    first, last = tuned.evaluations
    assert first.validation_loss == source.last.validation_loss
    assert last.validation_loss != first.validation_loss
    assert tuned.initial_weights_sha256 == routed.initial_weights_sha256
    assert tuned.cost.stored_params == tuned.cost.trainable_params < tuned.cost.params / 2


def test_adapters_alone_change_and_are_stored(plan, folder):
    job = Job.open(folder.root, plan.rows["routed"][0].id)
    trainer = job.trainer()
    before = {name: weight.clone() for name, weight in trainer.network.state_dict().items()}
    adapters = {f"backbone.{name}" for name in trainer.network.backbone.adapters}
    trainer.step(trainer.batch(0))
    after = trainer.network.state_dict()
    assert {name for name in after if not torch.equal(after[name], before[name])} <= adapters
    assert any(not torch.equal(after[name], before[name]) for name in adapters)

    # The average has the frozen weights themselves; checkpoints and kept weights have none of them.
    averaged = dict(trainer.average.named_parameters())
    for name, weight in trainer.network.named_parameters():
        assert (averaged[name] is weight) == (name not in adapters)
    stored = {name.partition(".")[2] for name in trainer.tensors() if name.startswith(("weights.", "average."))}
    assert stored == adapters
    assert all(name.endswith(tuple(adapters)) for name in trainer.tensors())
    kept = load_file(cell_folder(plan, folder, "routed") / "weights" / "8.safetensors")
    assert kept.keys() == adapters


def test_kept_adapters_are_evaluated_with_the_weights_that_they_started_from(plan, folder):
    tuned, judged = outcome(plan, folder, "tuned"), outcome(plan, folder, "judged")
    assert judged.last.validation_loss == tuned.last.validation_loss


def test_resumed_it_ends_with_the_same_weights_bit_for_bit(plan, folder, tmp_path):
    shutil.copytree(folder.root, tmp_path / "run")
    again = new_folder(tmp_path / "run")
    own = cell_folder(plan, again, "routed")
    (own / "record.json").unlink()
    for path in own.glob("checkpoints/step-*8.*"):
        path.unlink()
    assert [*own.glob("checkpoints/step-*6.safetensors")]
    run_cell(again.root, own.name, 1, quiet)
    found, whole = (outcome(plan, one, "routed") for one in (again, folder))
    assert (found.final_weights_sha256, found.train_loss) == (whole.final_weights_sha256, whole.train_loss)
    assert found.weights == whole.weights
    assert [e.validation_loss for e in found.evaluations] == [e.validation_loss for e in whole.evaluations]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("training: {lora: {rank: 2}}", "adapters of drawn weights have nothing to adapt"),
        ("training: {lora: {rank: 0}, start: pretrained}", "training.lora.rank"),
        ("training: {lora: {rank: 2}, start: pretrained, optimizer: muon}", "adapters are trained by adamw, here muon"),
        ("training: {lora: {rank: 2}, start: pretrained}, auxiliary: mae", "auxiliary losses train layers of their"),
        (
            "training: {lora: {rank: 2}, start: pretrained}, method: layer_skip, routes: ['1:2@0.5']",
            "method layer_skip has more than a backbone",
        ),
        ("training: {start: tuned}", "starts from other weights itself"),
    ],
)
def test_what_has_no_adapters_is_refused(tmp_path, row, message):
    tuned = "  tuned: {training: {start: pretrained, lora: {rank: 2}}}\n"
    with pytest.raises(SuiteError, match=re.escape(message)):
        planned(tmp_path, f"{BASE}{tuned}  wrong: {{{row}}}\n")


def test_adapters_of_another_run_are_nothing_to_start_from(plan, tmp_path):
    other = begun(tmp_path / "run", plan, SUITE)
    at = f"{{row: tuned, run: '{other.root}'}}"
    with pytest.raises(SuiteError) as refused:
        planned(tmp_path, f"{BASE}  wrong: {{training: {{start: {at}}}}}\n")
    (problem,) = refused.value.problems
    assert problem.message.startswith("training.start.row 'tuned' keeps adapters alone (training.lora)")
    assert "name the row that it starts from, or train all of its weights" in problem.message


def test_without_peft_the_suite_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(resolve, "find_spec", lambda name: None)
    with pytest.raises(SuiteError, match=r"needs peft: pip install 'tread-bench\[lora\]'"):
        planned(tmp_path, f"{BASE}  tuned: {{training: {{start: pretrained, lora: {{rank: 2}}}}}}\n")
