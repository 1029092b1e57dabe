"""Inception as the evaluator of Dhariwal and Nichol reads it: torch-fidelity's port, and spatial features beside."""

from __future__ import annotations

import pytest
import torch
from torch_fidelity import FeatureExtractorInceptionV3

from tests.measure.random_images import random_images
from tread_bench.data.pretrained import full_float32
from tread_bench.measure.quality.networks.inception.extractor import open_inception

FEW = 2


@pytest.fixture(scope="module")
def extractor(inception_weights):
    return open_inception(inception_weights)


@pytest.fixture(scope="module")
def ours(extractor):
    return extractor.features(random_images(FEW), spatial=True)


def test_spatial_features_change_nothing_else_and_come_only_if_requested(ours, extractor):
    without = extractor.features(random_images(FEW))
    assert without.spatial is None
    assert torch.equal(without.pooled, ours.pooled) and torch.equal(without.logits, ours.logits)
    assert not extractor.network.Mixed_6d.branch1x1._forward_hooks


def test_it_is_torch_fidelity_s_network(inception_weights, ours):
    """Spatial features are the first 7 channels of `mixed_6/conv`, channels last: 7 x 17 x 17 of 192 x 17 x 17."""
    theirs, maps = FeatureExtractorInceptionV3("inception", ["2048", "logits_unbiased"], str(inception_weights)), []
    theirs.Mixed_6d.branch1x1.register_forward_hook(lambda module, inputs, output: maps.append(output))
    with full_float32(torch.device("cpu")):  # whatever a test before it chose
        pooled, logits = theirs(random_images(FEW))
    assert maps[0][:, :7].std() > 1e-3 and pooled.std() > 1e-3  # no layer has died out
    assert torch.equal(pooled, ours.pooled) and torch.equal(logits, ours.logits)
    assert maps[0].shape == (FEW, 192, 17, 17)
    assert torch.equal(maps[0].permute(0, 2, 3, 1)[..., :7].reshape(FEW, 7 * 17 * 17), ours.spatial)
