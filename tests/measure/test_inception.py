"""Inception as the evaluator of Dhariwal and Nichol reads it: torch-fidelity's port, and spatial features beside."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_fidelity import FeatureExtractorInceptionV3

from tests.measure.random_images import random_images
from tread_bench.data.precision import full_float32
from tread_bench.measure.quality.features import Extractor, Features
from tread_bench.measure.quality.networks.inception.extractor import open_inception

FEW = 2


@pytest.fixture(scope="module")
def weights_path(inception_weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights whose batch norms have the statistics of random images, so that no layer dies out."""
    network = open_inception(inception_weights).network
    generator = torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
            module.weight.uniform_(0.5, 1.5, generator=generator)
            module.bias.normal_(0, 0.3, generator=generator)
    network.train()
    network(random_images(4, seed=2))
    path = tmp_path_factory.mktemp("calibrated") / "weights.pth"
    torch.save(network.state_dict(), path)
    return path


@pytest.fixture(scope="module")
def extractor(weights_path: Path) -> Extractor:
    return open_inception(weights_path)


@pytest.fixture(scope="module")
def ours(extractor: Extractor) -> Features:
    return extractor.features(random_images(FEW), spatial=True)


def test_spatial_features_change_nothing_else_and_come_only_if_requested(ours: Features, extractor: Extractor) -> None:
    without = extractor.features(random_images(FEW))
    assert without.spatial is None
    assert torch.equal(without.pooled, ours.pooled) and torch.equal(without.logits, ours.logits)
    assert not extractor.network.Mixed_6d.branch1x1._forward_hooks


def test_the_hook_is_gone_after_an_error(extractor: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extractor.network.Mixed_7a, "forward", lambda x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        extractor.features(random_images(1), spatial=True)
    assert not extractor.network.Mixed_6d.branch1x1._forward_hooks


def test_it_is_torch_fidelity_s_network(weights_path: Path, ours: Features) -> None:
    """Spatial features are the first 7 channels of `mixed_6/conv`, channels last: 7 x 17 x 17 of 192 x 17 x 17."""
    theirs, maps = FeatureExtractorInceptionV3("inception", ["2048", "logits_unbiased"], str(weights_path)), []
    theirs.Mixed_6d.branch1x1.register_forward_hook(lambda module, inputs, output: maps.append(output))
    with full_float32(torch.device("cpu")):  # whatever a test before it chose
        pooled, logits = theirs(random_images(FEW))
    assert torch.equal(pooled, ours.pooled) and torch.equal(logits, ours.logits)
    assert maps[0].shape == (FEW, 192, 17, 17)
    assert torch.equal(maps[0].permute(0, 2, 3, 1)[..., :7].reshape(FEW, 7 * 17 * 17), ours.spatial)
