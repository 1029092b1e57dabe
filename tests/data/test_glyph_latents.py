"""Latents of glyphs: what the shipped autoencoder keeps of an image, and how its weights came to be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.command_line import tread_bench_anew
from tread_bench.data.glyph_latents import train
from tread_bench.data.glyph_latents.family import IMAGES, WEIGHTS, GlyphLatentsData
from tread_bench.data.glyph_latents.network import open_autoencoder
from tread_bench.data.glyphs.source import read_glyphs
from tread_bench.data.open import open_data
from tread_bench.data.source import DataSource
from tread_bench.measure.quality.decoder import open_decoder, to_pixels
from tread_bench.measure.quality.fid.metric import features_to_fid
from tread_bench.measure.quality.networks.classifier.extractor import open_glyphs_classifier
from tread_bench.measure.quality.networks.classifier.family import GlyphsClassifierOptions

SUITE = """\
name: latents
base:
  backbone: {name: JiT, depth: 2, hidden: 16, heads: 2, bottleneck: 4, in_context_tokens: 0, patch: 4}
  data: glyph_latents
  objective: x_prediction
  training: {iterations: 2, batch: 4}
  sampling: {steps: 2}
  metrics: {num_samples: 32, validation_samples: 16, similarity_samples: 8, kid_subset_size: 16}
"""


@pytest.fixture(scope="module")
def source() -> DataSource:
    return open_data(GlyphLatentsData())


def latents_of(source: DataSource, count: int) -> Tensor:
    return source.train.images(np.arange(count))


def test_they_are_the_images_of_glyphs_in_their_order(source: DataSource) -> None:
    glyphs = read_glyphs(IMAGES)
    index = np.array([5, 0, 700])
    for name in ("train", "held_out"):
        latents, images = getattr(source, name), getattr(glyphs, name)
        assert len(latents) == len(images) and torch.equal(latents.labels(index), images.labels(index))
        assert latents.shape == (2, 16, 16) and latents.sha256 != images.sha256
        with torch.no_grad():
            encoded = open_autoencoder(WEIGHTS).encode(images.images(index))
        torch.testing.assert_close(latents.images(index), encoded)
    assert source.reference.sha256 == glyphs.train.sha256


def test_every_channel_has_mean_0_and_standard_deviation_1(source: DataSource) -> None:
    every = latents_of(source, len(source.train))
    torch.testing.assert_close(every.mean((0, 2, 3)), torch.zeros(2), atol=1e-3, rtol=0)
    torch.testing.assert_close(every.std((0, 2, 3)), torch.ones(2), atol=1e-3, rtol=0)


def test_characters_that_it_was_not_trained_on_come_back(source: DataSource) -> None:
    """As docs/methods/glyphs.md says: 34.3 dB."""
    real = read_glyphs(IMAGES).held_out
    index = np.arange(len(real))
    decoder = open_decoder(GlyphLatentsData())
    decoded = to_pixels(source.held_out.images(index), decoder)
    error = ((decoded.double() - real.uint8(index).double()) / 255).square().mean()
    assert float(-10 * error.log10()) == pytest.approx(34.3, abs=0.1)


@pytest.mark.slow
def test_decoded_images_are_nearer_to_the_real_ones_than_the_held_out_are(source: DataSource) -> None:
    """As docs/methods/glyphs.md says: FID 0.17 and 1.4."""
    decoder, glyphs = open_decoder(GlyphLatentsData()), read_glyphs(IMAGES)
    network = open_glyphs_classifier(GlyphsClassifierOptions(), (1, 32)).network

    def features(images: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([network(part.expand(-1, 3, -1, -1))[0] for part in images.split(500)])

    real, held_out = (part.uint8(np.arange(len(part))) for part in (glyphs.train, glyphs.held_out))
    decoded = to_pixels(latents_of(source, len(real)), decoder)
    of_real = features(real)
    assert features_to_fid(features(decoded), of_real) == pytest.approx(0.17, abs=0.01)
    assert features_to_fid(features(held_out), of_real) == pytest.approx(1.44, abs=0.01)


def test_a_picture_does_not_depend_on_how_many_are_decoded(source: DataSource) -> None:
    latents, decoder = latents_of(source, 40), open_decoder(GlyphLatentsData())
    assert decoder is not None
    assert torch.equal(decoder(latents)[:3], decoder(latents[:3]))


def test_a_training_learns_to_give_images_back_and_standardises() -> None:
    images = read_glyphs(IMAGES).train.images(np.arange(128))

    def error_of(steps: int) -> float:
        network = train.train_autoencoder(images, steps)
        with torch.no_grad():
            latents = network.encode(images)
            torch.testing.assert_close(latents.mean((0, 2, 3)), torch.zeros(2), atol=1e-5, rtol=0)
            torch.testing.assert_close(latents.std((0, 2, 3)), torch.ones(2), atol=1e-5, rtol=0)
            return float((network(latents) - images).square().mean())

    assert error_of(40) < 0.7 * float((images - images.mean()).square().mean())
    assert error_of(12) == error_of(12)


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "STEPS", 11)
    path = tmp_path / "weights.safetensors"
    train.main(path)
    content = path.read_bytes()
    assert open_autoencoder(path).std.min() > 0
    with pytest.raises(FileExistsError):
        train.main(path)
    assert path.read_bytes() == content


def test_a_study_trains_on_them_and_evaluates_pictures(tmp_path: Path) -> None:
    suite, out = tmp_path / "latents.yaml", tmp_path / "run"
    suite.write_text(SUITE)
    ended = tread_bench_anew("run", suite, "--out", out)  # precision of 9,000 real images takes some GB
    assert ended.returncode == 0, ended.stderr
    (record,) = map(json.loads, (out / "records.jsonl").read_text().splitlines())
    assert record["status"] == "done"
    last = record["evaluations"][-1]
    assert last["iteration"] == 2 and last["fid"] > 0 and last["validation_loss"] > 0
    assert next(out.glob("cells/*/samples/*.png")).stat().st_size > 0
