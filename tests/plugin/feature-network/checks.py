"""What must hold of every feature network: save this beside your own, and put its description in place of EXTRACTOR."""

import re

import torch
from random_convolution.family import RANDOM_CONVOLUTION as EXTRACTOR

from tread_bench import Extractor
from tread_bench.core.describe.plugins import named

OPTIONS = {"width": 8}
SHAPE = 3, 32  # channels and side of the images to try it on


def opened():
    return named(EXTRACTOR.builder)(EXTRACTOR.options.model_validate({"name": EXTRACTOR.name, **OPTIONS}), SHAPE)


def pixels():
    """Eight grey gradients with noise; the first four bright, the others dark."""
    channels, side = SHAPE
    ramp = torch.linspace(0, 100, side).expand(8, channels, side, side).clone()
    ramp[:4] += 100
    noise = torch.randint(0, 56, (8, 1, side, side), generator=torch.Generator().manual_seed(0))
    return (ramp + noise).to(torch.uint8)


def outputs(extractor, images):
    """Features, logits and spatial features, those that there are."""
    return [found for found in extractor.features(images, EXTRACTOR.has_spatial) if found is not None]


def test_features():
    """It has finite float32 features of the width that it says, and the other outputs that its description says."""
    extractor = opened()
    assert isinstance(extractor, Extractor)
    assert (extractor.spatial_dims is not None) is EXTRACTOR.has_spatial
    features, logits, spatial = extractor.features(pixels(), EXTRACTOR.has_spatial)
    assert features.shape == (8, extractor.dims)
    assert (logits is not None) is EXTRACTOR.has_logits
    assert logits is None or logits.shape == (8, logits.shape[1])
    assert (spatial is not None) is EXTRACTOR.has_spatial
    assert spatial is None or spatial.shape == (8, extractor.spatial_dims)
    for found in outputs(extractor, pixels()):
        assert found.dtype == torch.float32 and found.isfinite().all()


def test_content():
    """A bright image and a dark one have other features."""
    features = opened().features(pixels(), EXTRACTOR.has_spatial).pooled
    assert not torch.equal(features[0], features[-1])


def test_batches():
    """An image's features do not depend on the images beside it, but for rounding."""
    extractor = opened()
    whole = outputs(extractor, pixels())
    for size in (1, 3):
        parts = [outputs(extractor, images) for images in pixels().split(size)]
        for found, split in zip(whole, zip(*parts, strict=True), strict=True):
            torch.testing.assert_close(torch.cat(split), found, rtol=1e-4, atol=1e-5)


def test_sizes():
    """If `resizes` says so, images twice as wide as high have the same outputs as others."""
    extractor = opened()
    if EXTRACTOR.resizes:
        wide = outputs(extractor, torch.cat([pixels(), pixels()], dim=-1))
        for found, square in zip(wide, outputs(extractor, pixels()), strict=True):
            assert found.shape == square.shape and found.dtype == square.dtype and found.isfinite().all()


def test_determinism():
    """Computed again, or by a network that is opened again, features have the same bits."""
    first, second = opened(), opened()
    whole = outputs(first, pixels())
    for seed, extractor in enumerate((first, second)):
        torch.manual_seed(seed)
        assert all(map(torch.equal, outputs(extractor, pixels()), whole))
    assert first.sha256 == second.sha256


def test_identity():
    """Its `sha256` has 64 hexadecimal digits."""
    assert re.fullmatch("[0-9a-f]{64}", opened().sha256)
