"""What is measured of a network that takes text; letters of drawn characters: of real ones, noise and samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from tests.captioned_digits import CaptionedDigits, captioned_cell, read_captioned
from tests.model.methods.subjects import answering, cell_of, network_of
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.metrics import metrics
from tread_bench.core.numbers import draws
from tread_bench.data.glyphs.family import GlyphsData
from tread_bench.data.glyphs.fonts import FACES
from tread_bench.data.glyphs.render import draw_glyphs
from tread_bench.data.glyphs.source import read_glyphs
from tread_bench.data.glyphs.words import caption_of
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure import evaluation
from tread_bench.measure.evaluation import Evaluator
from tread_bench.measure.inside.validation import validation_losses
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric
from tread_bench.runner.sources import _PICTURES

METRICS = {"num_samples": 60, "validation_samples": 12, "similarity_samples": 6, "kid_subset_size": 30}
DATA = read_captioned(CaptionedDigits())


def made(backbone="DiT", **keys):
    sizes = {"name": backbone, "depth": 4, "hidden": 16, "heads": 2, "patch": 2}
    cell = captioned_cell(backbone=sizes, sampling={"steps": 1}, **keys)
    return cell, answering(network_of(cell))


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


METRIC = metrics.find("caption_accuracy")
GLYPHS = draw_glyphs(16)
HELD_OUT = np.flatnonzero(GLYPHS.is_held_out)[:300]
PIXELS = torch.from_numpy(GLYPHS.pixels[HELD_OUT])
CAPTIONS = [
    caption_of(FACES[face], code)
    for face, code in zip(GLYPHS.faces[HELD_OUT], GLYPHS.code_points[HELD_OUT], strict=True)
]


def figures(pixels, captions=CAPTIONS):
    samples = ImageRecords(batches=lambda: iter(pixels.split(64)), captions=captions)
    return OpenMetric.of(METRIC.options()).figures(samples, ImageRecords())


def test_real_characters_are_all_found():
    found = figures(PIXELS)
    assert found == {"letter_accuracy": 1}
    dim = (40 + 0.3 * PIXELS.float()).to(torch.uint8)  # neither contrast nor background matters
    assert figures(dim) == found and figures(torch.full_like(PIXELS, 90)) == dict.fromkeys(found, 0)


def test_noise_is_at_the_stated_chance():
    noise = torch.randint(0, 256, PIXELS.shape, generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    (figure,) = METRIC.figures
    assert binomtest(round(figures(noise)[figure.name] * len(PIXELS)), len(PIXELS), 0.01).pvalue > 1e-3
    assert "by chance 0.01;" in figure.definition


def test_an_evaluation_measures_the_captions_that_its_samples_were_generated_for(tmp_path, monkeypatch):
    """Held-out images in place of samples, in the order of the captions: every one is right."""
    metrics = {"num_samples": 120, "batch": 50, "validation_samples": 8, "also": ["caption_accuracy"]}
    glyphs = {"name": "glyphs", "image_size": 16, "captions": "words"}
    cell = cell_of("dense", data=glyphs, metrics=metrics)
    data = read_glyphs(GlyphsData.model_validate({"captions": "words"}))

    def held_out(network, objective, sampling, seed, count, batch, weak, **ranks):
        yield from data.held_out.images(np.arange(count)).split(batch)

    monkeypatch.setattr(evaluation, "generate", held_out)
    evaluator = Evaluator(cell, data, build_objective(cell.objective), tmp_path)
    evaluator.check()
    found = evaluator(network_of(cell), 1, 0.0, seed=0)
    assert found.figures == {"letter_accuracy": 1}
    assert "nearest of 100 characters" in found.protocol_details["also"]["caption_accuracy"]


@pytest.mark.parametrize("data", ["glyphs", "digits"])
def test_what_other_data_lack_is_said(data):
    choice = Cell.model_validate({"backbone": "DiT-S/2", "training": {"iterations": 0}, "data": {"name": data}}).data
    reason = METRIC.unfit(METRIC.options(), choice)
    assert reason.startswith("it reads captions of drawn characters") and reason.endswith("data glyphs with captions")
