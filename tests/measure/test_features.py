"""Feature networks: their choice, their identity, safe loading, and the training that made the shipped one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.command_line import tread_bench
from tests.data.image_sets import write_folder
from tread_bench.core.config.metrics import Metrics
from tread_bench.core.errors import UserError
from tread_bench.core.problems import SuiteError
from tread_bench.data.digits.family import DigitsData
from tread_bench.data.glyphs.family import GlyphsData
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.source import DataSource, ImageSet, open_data
from tread_bench.measure.quality import feature_training
from tread_bench.measure.quality.feature_training import accuracy, default_spec, train_and_save, train_classifier
from tread_bench.measure.quality.features import choose_extractor
from tread_bench.measure.quality.networks.classifier.network import (
    DIGITS_WEIGHTS,
    GLYPHS_WEIGHTS,
    Classifier,
    load_classifier,
    open_classifier,
)
from tread_bench.measure.quality.networks.inception.extractor import open_inception
from tread_bench.suite.files import Look
from tread_bench.suite.load import load_plan

INCEPTION = {"name": "inception"}
COLOUR_DATA = ParquetData(name="parquet", train=("a",), held_out=("b",), image_size=32, num_classes=10)


def test_the_shipped_network_knows_the_digits(digits):
    network, about = load_classifier(DIGITS_WEIGHTS)
    assert accuracy(network, digits.held_out) > 0.97
    assert about["data_sha256"] == digits.sha256


def test_the_shipped_network_of_glyphs_knows_them_at_any_size():
    classifier, about = load_classifier(GLYPHS_WEIGHTS)
    for side in (32, classifier.spec.image_size):
        options = GlyphsData(image_size=side)
        data = open_data(options)
        index = np.arange(len(data.held_out))
        logits = choose_extractor(Metrics(), options).features(data.held_out.uint8(index)).logits
        assert (logits.argmax(1) == data.held_out.labels(index)).float().mean() > 0.55
    assert about["data_sha256"] == data.sha256


def test_unit_variance_leaves_the_logits(digits):
    network = Classifier(default_spec(digits)).eval().requires_grad_(False)
    norm = network.body[-4]
    norm.bias.normal_(generator=torch.Generator().manual_seed(0))
    pixels = digits.train.uint8(np.arange(1438))
    before = network(pixels)
    feature_training._standardise(network, digits.train)
    after = network(pixels)
    assert torch.allclose(after[1], before[1], atol=1e-5)
    varied = before[0].var(0) > 1e-12
    assert torch.allclose(after[0].var(0)[varied], torch.ones(int(varied.sum())), rtol=1e-4)
    assert torch.equal(after[0][:, ~varied], before[0][:, ~varied])


def test_features_do_not_follow_the_precision_of_the_training(digits):
    extractor, pixels = choose_extractor(Metrics(), DigitsData()), digits.train.uint8(np.arange(16))
    expected = extractor.features(pixels)[0]
    torch.set_float32_matmul_precision("high")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(extractor.features(pixels)[0], expected)
    assert torch.get_float32_matmul_precision() == "high"  # it is given back


def test_training_sees_images_moved_by_up_to_an_eighth_of_their_side_with_edges_repeated():
    ramp = torch.arange(16).expand(128, 1, 16, 16)
    seen = feature_training._shifted(ramp, 0, 0)
    assert sorted({*(seen - ramp).flatten().tolist()}) == [-2, -1, 0, 1, 2]
    assert seen.min() == 0 and seen.max() == 15


def test_training_is_a_function_of_its_seed(digits):
    weights = [train_classifier(digits, iterations=8, seed=seed)[0].state_dict() for seed in (0, 0, 1)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not torch.equal(weights[0]["head.weight"], weights[2]["head.weight"])


@pytest.mark.parametrize(("noise", "iterations"), [(10, 350), (1000, 1000)])
def test_training_ends_where_accuracy_settles(noise, iterations):
    """After a cycle that gains less than two points, where dark and bright images are told apart; of noise, never."""
    rng, labels = np.random.default_rng(0), np.arange(64) % 2
    pixels = [(100 + 50 * labels[:, None, None, None] + noise * rng.normal(size=(64, 1, 4, 4))) for _ in range(2)]
    images = [ImageSet(one.clip(0, 255).astype(np.uint8), labels) for one in pixels]
    calls = []
    trained = train_classifier(DataSource(*images, 2), max_width=4, report=lambda *call: calls.append(call))
    assert trained.iterations == iterations and (trained.accuracy > 0.9) == (iterations < 1000)
    assert calls == [("feature network, iterations", step, 1000) for step in range(iterations)]


def test_a_trained_file_is_found_again_and_chosen(tmp_path):
    path = tmp_path / "mine.safetensors"
    train_and_save(DigitsData(), path, iterations=3, seed=1, suite="my.yaml")
    extractor = choose_extractor(Metrics(extractor_weights=str(path)), DigitsData())
    assert extractor.name == "digits-classifier"
    assert extractor.sha256 != choose_extractor(Metrics(), DigitsData()).sha256
    command = load_classifier(path)[1]["command"]
    assert command == "tread-bench features my.yaml --iterations 3 --seed 1 --out mine.safetensors"


@pytest.mark.parametrize("size", [4, 8, 28, 64])
def test_the_architecture_scales_with_the_image(size):
    images = ImageSet(np.zeros((2, 3, size, size), np.uint8), np.zeros(2, np.int64))
    spec = default_spec(DataSource(images, images, 7))
    assert -(-size // int(np.prod(spec.strides))) == 4 and spec.widths[-1] >= 64


def test_neither_latents_nor_unlabelled_images_train_a_classifier(tmp_path):
    images = ImageSet(np.zeros((2, 3, 8, 8), np.uint8), np.zeros(2, np.int64))
    with pytest.raises(UserError, match="num_classes is 0"):
        train_classifier(DataSource(images, images, 0), iterations=1)
    path = tmp_path / "a.safetensors"
    save_file({"latents": torch.zeros(20, 4, 32, 32), "labels": torch.arange(20)}, path)
    data = LatentsData(name="latents", train=(str(path),), held_out=(str(path),))
    with pytest.raises(UserError, match="takes images, and these data are latents"):
        train_and_save(data, tmp_path / "judge.safetensors", iterations=1)


@pytest.mark.parametrize(
    ("metrics", "data", "message"),
    [
        ({}, COLOUR_DATA, r"none ships for data 'parquet'.*bench features SUITE.*inception_weights"),
        ({"extractor": "inception"}, DigitsData(), r"set metrics\.inception_weights"),
        ({"extractor": "trained-classifier"}, DigitsData(), r"set metrics\.extractor_weights"),
        ({"extractor": "digits-classifier"}, COLOUR_DATA, "for 1x8x8 images, the data are 3x32x32"),
        ({"extractor": "glyphs-classifier"}, COLOUR_DATA, "takes grey images, the data have 3 channels: train one"),
        ({"inception_weights": "a", "extractor_weights": "b"}, DigitsData(), "both given"),
        ({"extractor": {**INCEPTION, "weights": "a"}, "inception_weights": "b"}, DigitsData(), "both given"),
        ({"inception_weights": "/nowhere"}, DigitsData(), "cannot read the weights of torch-fidelity's Inception"),
        ({"extractor_weights": "/nowhere"}, DigitsData(), "no such file; train one"),
    ],
)
def test_a_choice_that_cannot_be_met_says_the_way_out(metrics, data, message):
    with pytest.raises(UserError, match=message):
        choose_extractor(Metrics(**metrics), data)


def test_weights_of_something_else_are_refused(tmp_path):
    torch.save({"fc.weight": torch.zeros(2)}, tmp_path / "other.pth")
    with pytest.raises(UserError, match=r"weights of torch-fidelity's Inception .* give weights-inception-2015"):
        open_inception(tmp_path / "other.pth")
    (tmp_path / "cut.safetensors").write_bytes(DIGITS_WEIGHTS.read_bytes()[:-8])
    with pytest.raises(UserError, match="not a feature network"):
        open_classifier(tmp_path / "cut.safetensors")


def test_captioned_images_in_class_folders_train_a_feature_network_by_their_classes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "pets", 33)
    captions = "{template: 'a {class}'}"
    Path("pets.yaml").write_text(
        "name: pets\nrows: {dense: {}}\nbase:\n  backbone: {name: DiT, depth: 2, hidden: 32, heads: 2, patch: 4}\n"
        f"  data: {{name: image_folder, train: [pets], image_size: 4, num_classes: 0, captions: {captions}}}\n"
        "  training: {iterations: 2, batch: 4}\n"
        "  metrics: {num_samples: 128, validation_samples: 3, similarity_samples: 3}\n"
    )
    with pytest.raises(SuiteError, match=r"FID needs a feature network, .*: give torch-fidelity's Inception weights"):
        load_plan(Path("pets.yaml"), look=Look.HEADERS)
    train = ("features", "pets.yaml", "--iterations", "2", "--set", "data.captions=null", "--set", "data.num_classes=3")
    told = tread_bench(*train, "--out", "told.safetensors")
    assert told.stdout.startswith("After 2 iterations in ") and "of 3 held-out images correctly" in told.stdout
    assert "metrics.extractor_weights=told.safetensors" in told.stdout
    assert "feature network, iterations: 0 of 2" in told.stderr
    assert load_classifier(Path("told.safetensors"))[0].spec.num_classes == 3
    plan = load_plan(Path("pets.yaml"), ["metrics.extractor_weights=told.safetensors"], look=Look.NETWORKS)
    assert plan.cells[0].cell.data.num_classes == 0
    as_json = tread_bench(*train, "--out", "json.safetensors", "--json")
    assert json.loads(as_json.stdout)["iterations"] == 2
