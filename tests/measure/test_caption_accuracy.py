"""Letters of drawn characters: known on real ones, at chance on noise, of the captions that samples have."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from tests.model.methods.subjects import cell_of, network_of
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.metrics import metrics
from tread_bench.data.glyphs.family import GlyphsData
from tread_bench.data.glyphs.fonts import FACES
from tread_bench.data.glyphs.render import draw_glyphs
from tread_bench.data.glyphs.source import read_glyphs
from tread_bench.data.glyphs.words import caption_of
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure import evaluation
from tread_bench.measure.evaluation import Evaluator
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric

METRIC = metrics.find("caption_accuracy")
GLYPHS = draw_glyphs(16)
HELD_OUT = np.flatnonzero(GLYPHS.is_held_out)[:300]
PIXELS = torch.from_numpy(GLYPHS.pixels[HELD_OUT])
CAPTIONS = [
    caption_of(FACES[face], code)
    for face, code in zip(GLYPHS.faces[HELD_OUT], GLYPHS.code_points[HELD_OUT], strict=True)
]


def figures(pixels, captions=CAPTIONS):
    samples = ImageRecords(None, lambda: iter(pixels.split(64)), captions=captions)
    return OpenMetric.of(METRIC.options()).figures(samples, ImageRecords(None))


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
