"""Letter and style of drawn characters: known on real ones, at chance on noise, of the captions that samples have."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.metrics import find_metric
from tread_bench.data.glyphs.family import GlyphsData
from tread_bench.data.glyphs.fonts import FACES
from tread_bench.data.glyphs.render import NUM_STYLES, draw_glyphs, draw_styles
from tread_bench.data.glyphs.source import read_glyphs
from tread_bench.data.glyphs.words import caption_of
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure import evaluation
from tread_bench.measure.evaluation import Evaluator
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric
from tread_bench.model.backbone import build_backbone
from tread_bench.model.methods.base import build_method
from tread_bench.model.network import Network

METRIC = find_metric("caption_accuracy")
GLYPHS = draw_glyphs(16)
HELD_OUT = np.flatnonzero(GLYPHS.is_held_out)[:300]
PIXELS = torch.from_numpy(GLYPHS.pixels[HELD_OUT])
CAPTIONS = [
    caption_of(FACES[face], code)
    for face, code in zip(GLYPHS.faces[HELD_OUT], GLYPHS.code_points[HELD_OUT], strict=True)
]


def estimates(pixels, captions=CAPTIONS, batch=64):
    metric = OpenMetric.of(METRIC.options())
    return metric.estimates(
        ImageRecords(None, lambda: iter(pixels.split(batch)), captions=captions), ImageRecords(None)
    )


def figures(pixels, captions=CAPTIONS):
    return {name: estimate.value for name, estimate in estimates(pixels, captions).items()}


@pytest.mark.parametrize("size", [8, 16])
def test_real_characters_are_all_found(size):
    glyphs = draw_glyphs(size)
    chosen = np.flatnonzero(glyphs.is_held_out)[:150]
    pairs = zip(glyphs.faces[chosen], glyphs.code_points[chosen], strict=True)
    found = figures(torch.from_numpy(glyphs.pixels[chosen]), [caption_of(FACES[face], code) for face, code in pairs])
    assert found == {"letter_accuracy": 1, "style_accuracy": 1}
    dim = (40 + 0.3 * PIXELS.float()).to(torch.uint8)  # neither contrast nor background matters
    assert figures(dim) == found and figures(torch.full_like(PIXELS, 90)) == dict.fromkeys(found, 0)


def test_noise_is_at_the_stated_chance():
    noise = torch.randint(0, 256, PIXELS.shape, generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    styled = sum(
        draw_styles(*pair, 16) is not None for pair in zip(*map(_ints, (GLYPHS.faces, GLYPHS.code_points)), strict=True)
    )
    found = figures(noise)
    for name, chance, count in (("letter_accuracy", 0.01, len(PIXELS)), ("style_accuracy", 0.25, styled)):
        assert count > 100 and binomtest(round(found[name] * count), count, chance).pvalue > 1e-3
        (figure,) = (one for one in METRIC.figures if one.name == name)
        assert f"by chance {chance};" in figure.definition


def _ints(values):
    return values[HELD_OUT].tolist()


def test_another_style_is_seen_and_the_letter_is_still_known():
    pixels, captions = [], []
    for place, caption in zip(HELD_OUT, CAPTIONS, strict=True):
        drawn = draw_styles(int(GLYPHS.faces[place]), int(GLYPHS.code_points[place]), 16)
        if drawn is not None:
            pixels.append(drawn.pixels[(drawn.own + 1) % NUM_STYLES])
            captions.append(caption)
    found = figures(torch.from_numpy(np.stack(pixels)), captions)
    assert found["style_accuracy"] == 0 and found["letter_accuracy"] > 0.7


def test_characters_of_other_captions_are_not_theirs():
    found = figures(PIXELS.roll(1, 0))
    assert found["letter_accuracy"] < 0.05 and found["style_accuracy"] < 0.5


def test_intervals_are_of_the_samples():
    found = estimates(PIXELS)["letter_accuracy"]
    assert found.low == pytest.approx(300 / (300 + 1.96**2), abs=1e-4) and found.high == pytest.approx(1)
    assert found.method == "Wilson's interval over 300 samples"


def test_without_a_styled_character_there_is_a_reason():
    place = next(
        k for k, p in enumerate(HELD_OUT) if draw_styles(int(GLYPHS.faces[p]), int(GLYPHS.code_points[p]), 16) is None
    )
    with pytest.raises(ValueError, match="no caption is of a character whose four styles differ"):
        figures(PIXELS[place : place + 1], CAPTIONS[place : place + 1])


def test_an_evaluation_measures_the_captions_that_its_samples_were_generated_for(tmp_path, monkeypatch):
    """Held-out images in place of samples, in the order of the captions: every one is right."""
    cell = Cell.model_validate(
        {
            "backbone": {"name": "DiT", "depth": 2, "hidden": 16, "heads": 2, "patch": 4},
            "data": {"name": "glyphs", "image_size": 16, "captions": "words"},
            "training": {"iterations": 1},
            "metrics": {"num_samples": 120, "batch": 50, "validation_samples": 8, "also": ["caption_accuracy"]},
        }
    )
    data = read_glyphs(GlyphsData.model_validate({"captions": "words"}))

    def held_out(network, objective, sampling, seed, count, batch, weak, **ranks):
        yield from data.held_out.images(np.arange(count)).split(batch)

    monkeypatch.setattr(evaluation, "generate", held_out)
    model = build_backbone(cell.backbone.family(), cell.backbone.spec(cell.data), {}, seed=0)
    evaluator = Evaluator(cell, data, build_objective(cell.objective), tmp_path)
    evaluator.check()
    found = evaluator(Network(model, build_method(cell, model)), 1, 0.0, seed=0)
    assert found.figures == {"letter_accuracy": 1, "style_accuracy": 1}
    assert "nearest of 100 characters" in found.protocol_details["also"]["caption_accuracy"]


def test_what_other_data_lack_is_said():
    for data in ({"name": "glyphs"}, {"name": "digits"}):
        choice = Cell.model_validate({"backbone": "DiT-S/2", "training": {"iterations": 0}, "data": data}).data
        reason = METRIC.unfit(METRIC.options(), choice)
        assert reason.startswith("it reads captions of drawn characters") and reason.endswith(
            "set data glyphs with captions"
        )
