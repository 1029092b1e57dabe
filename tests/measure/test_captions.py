"""What is measured of a network that takes text: held-out captions are the same for every cell, seed and batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.captioned_digits import CaptionedDigits, captioned_cell, read_captioned
from tests.model.methods.subjects import answering, network_of
from tread_bench.core.numbers import draws
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure.evaluation import Evaluator
from tread_bench.measure.inside.validation import held_out_batches, validation_losses
from tread_bench.runner.sources import _PICTURES

METRICS = {"num_samples": 60, "validation_samples": 12, "similarity_samples": 6, "kid_subset_size": 30}
DATA = read_captioned(CaptionedDigits())


def made(backbone="DiT", **keys):
    sizes = {"name": backbone, "depth": 4, "hidden": 16, "heads": 2, "patch": 2}
    cell = captioned_cell(backbone=sizes, sampling={"steps": 1}, **keys)
    return cell, answering(network_of(cell))


def test_held_out_samples_have_the_same_caption_whatever_the_batch():
    _, network = made()
    whole, parts = (
        torch.cat([y for _, _, y, _ in held_out_batches(network, DATA.held_out, 12, size)]) for size in (12, 5)
    )
    assert torch.equal(whole, parts) and torch.equal(whole, DATA.held_out.text(np.arange(12), 0, 0))


def test_the_validation_loss_is_that_of_the_captions():
    cell, network = made()
    objective, index = build_objective(cell.objective), np.arange(12)
    x, text = DATA.held_out.images(index), DATA.held_out.text(index, 0, 0)
    noise = torch.from_numpy(draws.normal(0, "held-out noise", 0, 12, (1, 8, 8)))
    losses = validation_losses(network, objective, DATA.held_out, 12, 5)
    for time in objective.validation_times:
        x_t = (1 - time) * x + time * noise
        error = network(x_t, torch.full((12,), time), text) - (noise - x)
        assert losses[f"{time:g}"] == pytest.approx(error.square().mean().item(), rel=1e-5)
        other = network(x_t, torch.full((12,), time), DATA.held_out.empty_text.expand(12, -1, -1)) - (noise - x)
        assert losses[f"{time:g}"] != pytest.approx(other.square().mean().item(), rel=1e-5)


def test_an_evaluation_keeps_the_captions_of_its_grid(tmp_path):
    cell, network = made(metrics=METRICS)
    evaluator = Evaluator(cell, DATA, build_objective(cell.objective), tmp_path)
    evaluator.check()
    found = evaluator(network, 1, 0.0, seed=3)
    assert found.captions == DATA.held_out.captions(np.arange(len(found.captions)), 0, 0)
    assert 0 < len(found.captions) <= 60 and (tmp_path / found.samples).exists()
    assert found.protocol_details["labels"] == "captions: one of each held-out sample, in order"
    assert "captions" in _PICTURES
