"""Activations predicted without a device, against those that are measured."""

from __future__ import annotations

import json

import pytest
import torch

from tests.command_line import tread_bench
from tests.measure.test_activations import COMPILED, PLAIN, activations_of, step_of
from tests.model.methods.subjects import BACKBONES, METHODS, cell_of
from tread_bench.cell.predicted import predict_activations
from tread_bench.core.config.backbones import BackboneChoice
from tread_bench.core.config.compute import StepOptions
from tread_bench.core.describe.routes import as_routes

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
SDPA = PLAIN | {"attention": "sdpa"}
ROUTED = ("tread", "dense")
FUSED = SDPA | {"wkv": "triton"}


def predicted(cell, kernels=PLAIN, device=CPU, processes=1, **options):
    return predict_activations(cell, StepOptions(**options), kernels, device, processes)


@pytest.mark.parametrize(
    ("kernels", "checkpointing"),
    [(PLAIN, False), (SDPA, False), (COMPILED, False), (COMPILED, True)],
    ids=["math", "sdpa", "compiled", "recomputed"],
)
@pytest.mark.parametrize("family", BACKBONES)
def test_a_prediction_is_what_is_measured(family, kernels, checkpointing):
    cell, options = cell_of("tread", family), {"gradient_checkpointing": checkpointing}
    assert predicted(cell, kernels, **options) == activations_of(step_of(cell, kernels, **options))


@pytest.mark.parametrize("method", METHODS)
def test_so_it_is_for_every_method(method):
    cell = cell_of(method)
    assert predicted(cell) == activations_of(step_of(cell))


def test_so_it_is_under_autocast():
    cell = cell_of("tread")
    assert predicted(cell, autocast="bfloat16") == activations_of(step_of(cell, autocast="bfloat16"))


def test_on_a_gpu_fused_attention_keeps_no_weights():
    """Of H x N x N numbers per sample and block, each in bfloat16 and float32, one of N x H in float32 is left."""
    cell = cell_of("dense", "DiT")
    spec = cell.backbone.spec(cell.data)
    weights = 6 * spec.depth * spec.heads * spec.num_tokens**2
    fused, plain = (predicted(cell, kernels, CUDA, autocast="bfloat16").kept for kernels in (SDPA, PLAIN))
    assert 2 * weights < plain - fused < 8 * weights


@pytest.mark.parametrize("family", BACKBONES)
def test_every_family_is_predicted_for_a_gpu(family):
    routed, dense = (predicted(cell_of(method, family), FUSED, CUDA, autocast="bfloat16").kept for method in ROUTED)
    assert 0 < routed < dense


def test_a_route_saves_the_share_of_its_blocks_and_tokens():
    """A fused block keeps the same for each token: a half of them in 10 of 12 blocks saves 5 of 12 parts."""
    sizes = {"name": "DiT", "depth": 12, "hidden": 64, "heads": 4, "patch": 1}
    dense = cell_of("dense").model_copy(update={"backbone": BackboneChoice(**sizes)})
    routed = dense.model_copy(update={"method": cell_of("tread").method, "routes": as_routes("1:10@0.5")})
    assert predicted(routed, SDPA).kept / predicted(dense, SDPA).kept == pytest.approx(1 - 5 / 12, abs=0.02)


def test_processes_and_micro_batches_share_a_batch():
    cell = cell_of("dense")  # a batch of 6
    whole = predicted(cell).kept
    assert predicted(cell, processes=2) == predicted(cell, micro_batch=3)
    assert predicted(cell, processes=2).kept == pytest.approx(whole / 2, rel=0.02)
    assert predicted(cell, processes=4) == predicted(cell, micro_batch=2)  # the largest share: 6 = 2 + 2 + 1 + 1


def test_the_dense_steps_of_a_schedule_count():
    cell = cell_of("tread", schedule={"until": 0.5})
    assert predicted(cell) == predicted(cell_of("dense"))


def test_plan_predicts_each_row_and_says_for_what():
    done = tread_bench("plan", "suites/smoke.yaml", "--memory", "cuda", "--json")
    document = json.loads(done.stdout)
    rows = {row["row"]: row["activation_bytes"] for row in document["rows"] if row["trained_params"]}
    assert rows and all(rows.values()) and document["activations_unknown"] == {}
    shown = tread_bench("plan", "suites/smoke.yaml", "--memory", "cpu").stdout
    assert "activations" in shown and "a step on cpu keeps" in shown.replace("\n", " ")


def test_without_values_a_block_that_reads_one_is_said(monkeypatch):
    from tread_bench.backbones.dit.network import DiT

    run = DiT.run_block
    monkeypatch.setattr(
        DiT, "run_block", lambda self, block, state: run(self, block, state) if state.c.sum() else state
    )
    with pytest.raises(RuntimeError, match="the host reads a value"):
        predicted(cell_of("dense"))
