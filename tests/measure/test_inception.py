"""Inception as the evaluator of Dhariwal and Nichol reads it: resize, layers, layout and logits, against a plain
restatement of its graph; ports that are known to be wrong differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch_fidelity import FeatureExtractorInceptionV3

from tests.measure.random_images import difference, random_images
from tread_bench.data.precision import full_float32
from tread_bench.measure.quality.features import Extractor, Features, device_effect
from tread_bench.measure.quality.networks.inception.extractor import open_inception

FEW, MANY = 2, 64
Weights = Mapping[str, Tensor]


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
def weights(weights_path: Path) -> Weights:
    found: Weights = torch.load(weights_path, weights_only=True)
    return found


@pytest.fixture(scope="module")
def ours(extractor: Extractor) -> Features:
    return extractor.features(random_images(FEW), spatial=True)


# --- the restatement -------------------------------------------------------------------------------------------------


def resized(pixels: Tensor, size: int = 299) -> Tensor:
    """TensorFlow 1's ResizeBilinear: output i reads the input at i * side / size, without half pixels."""
    x = pixels.double().numpy()
    (low, high, part), (left, right, share) = (_neighbours(side, size) for side in x.shape[-2:])
    rows = x[:, :, low] * (1 - part[:, None]) + x[:, :, high] * part[:, None]
    return torch.from_numpy(rows[..., left] * (1 - share) + rows[..., right] * share).float()


def _neighbours(side: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The two inputs that each output lies between, and the share of the second."""
    at = np.arange(size) * np.float32(side / size)
    low = np.floor(at).astype(int)
    return low, np.minimum(low + 1, side - 1), at - low


def conv(w: Weights, name: str, x: Tensor, stride: int = 1, padding: Any = 0) -> Tensor:
    x = F.conv2d(x, w[f"{name}.conv.weight"], stride=stride, padding=padding)
    scale = w[f"{name}.bn.weight"] / (w[f"{name}.bn.running_var"] + 0.001).sqrt()
    shift = w[f"{name}.bn.bias"] - w[f"{name}.bn.running_mean"] * scale
    return (x * scale[:, None, None] + shift[:, None, None]).relu()


def chain(w: Weights, block: str, names: str, x: Tensor) -> Tensor:
    """Convolutions one after the other, padded so that the size stays."""
    for name in names.split():
        height, width = w[f"{block}.{name}.conv.weight"].shape[2:]
        x = conv(w, f"{block}.{name}", x, padding=(height // 2, width // 2))
    return x


def average(x: Tensor) -> Tensor:
    """3x3 means over the pixels that there are, as TensorFlow's padding SAME has them."""
    sums = F.avg_pool2d(x, 3, 1, 1, divisor_override=1)
    return sums / F.avg_pool2d(torch.ones_like(x), 3, 1, 1, divisor_override=1)


def graph(w: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
    """Images (B, 3, 299, 299) to `pool_3` (B, 2048) and `mixed_6/conv` (B, 192, 17, 17)."""
    x = conv(w, "Conv2d_1a_3x3", x, 2)
    x = conv(w, "Conv2d_2b_3x3", conv(w, "Conv2d_2a_3x3", x), padding=1)
    x = F.max_pool2d(x, 3, 2)
    x = F.max_pool2d(conv(w, "Conv2d_4a_3x3", conv(w, "Conv2d_3b_1x1", x)), 3, 2)
    for block in ("Mixed_5b", "Mixed_5c", "Mixed_5d"):
        paths = ("branch1x1", "branch5x5_1 branch5x5_2", "branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3")
        x = torch.cat([*(chain(w, block, p, x) for p in paths), chain(w, block, "branch_pool", average(x))], 1)
    twice = chain(w, "Mixed_6a", "branch3x3dbl_1 branch3x3dbl_2", x)
    strided = conv(w, "Mixed_6a.branch3x3", x, 2), conv(w, "Mixed_6a.branch3x3dbl_3", twice, 2)
    x = torch.cat([*strided, F.max_pool2d(x, 3, 2)], 1)
    for block in ("Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"):
        once = "branch7x7_1 branch7x7_2 branch7x7_3"
        twice_7 = " ".join(f"branch7x7dbl_{i}" for i in range(1, 6))
        parts = [chain(w, block, p, x) for p in ("branch1x1", once, twice_7)]
        if block == "Mixed_6d":
            spatial = parts[0]
        x = torch.cat([*parts, chain(w, block, "branch_pool", average(x))], 1)
    one = conv(w, "Mixed_7a.branch3x3_2", chain(w, "Mixed_7a", "branch3x3_1", x), 2)
    seven = chain(w, "Mixed_7a", "branch7x7x3_1 branch7x7x3_2 branch7x7x3_3", x)
    x = torch.cat([one, conv(w, "Mixed_7a.branch7x7x3_4", seven, 2), F.max_pool2d(x, 3, 2)], 1)
    for block, pooled in (("Mixed_7b", average), ("Mixed_7c", lambda x: F.max_pool2d(x, 3, 1, 1))):
        parts = [chain(w, block, "branch1x1", x)]
        for path in ("branch3x3_1", "branch3x3dbl_1 branch3x3dbl_2"):
            before = chain(w, block, path, x)
            last = "branch3x3_2" if path == "branch3x3_1" else "branch3x3dbl_3"
            parts += [chain(w, block, f"{last}{side}", before) for side in "ab"]
        x = torch.cat([*parts, chain(w, block, "branch_pool", pooled(x))], 1)
    return x.mean((2, 3)), spatial


def restated(w: Weights, pixels: Tensor) -> Features:
    pooled, maps = graph(w, (resized(pixels) - 128) / 128)
    spatial = maps.permute(0, 2, 3, 1)[..., :7].reshape(len(pixels), -1)
    return Features(pooled, pooled @ w["fc.weight"].T, spatial)


# --- what must hold --------------------------------------------------------------------------------------------------

CLOSE = 2e-4  # float32 through 94 layers


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.endurance)])
def test_one_pass_gives_what_the_graph_gives(count: int, extractor: Extractor, weights: Weights) -> None:
    found = extractor.features(random_images(count), spatial=True)
    expected = restated(weights, random_images(count))
    assert [tuple(one.shape) for one in found] == [(count, 2048), (count, 1008), (count, 2023)]
    for name, one, other in zip(Features._fields, found, expected, strict=True):
        assert difference(one, other) < CLOSE, name


def test_images_that_are_not_square_are_resized_alike(extractor: Extractor, weights: Weights) -> None:
    wide = random_images(FEW)[:, :, :25]
    found, expected = extractor.features(wide, spatial=True), restated(weights, wide)
    for name, one, other in zip(Features._fields, found, expected, strict=True):
        assert difference(one, other) < CLOSE, name


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
    theirs = FeatureExtractorInceptionV3("inception", ["2048", "logits_unbiased"], str(weights_path))
    with full_float32(torch.device("cpu")):  # whatever a test before it chose
        pooled, logits = theirs(random_images(FEW))
    assert torch.equal(pooled, ours.pooled) and torch.equal(logits, ours.logits)


def test_device_effect_is_nothing_on_the_cpu_and_the_relative_difference_elsewhere(extractor: Extractor) -> None:
    assert device_effect(extractor, random_images(1)) == 0

    class Elsewhere(Extractor):
        """One whose features are 1 % longer until it is on the CPU."""

        where = "cuda"

        @property
        def device(self) -> torch.device:
            return torch.device(self.where)

        def to(self, device: torch.device | str) -> Extractor:
            self.where = str(device)
            return self

        def features(self, pixels: Tensor, spatial: bool = False) -> Features:
            factor = torch.tensor([1.01, 1.002]) if self.where == "cuda" else torch.ones(2)
            return Features(torch.ones(2, 4) * factor[:, None])

    moved = Elsewhere("moved", torch.nn.Identity(), "", 4)
    assert device_effect(moved, random_images(2)) == pytest.approx(0.01, rel=1e-4)
    assert moved.where == "cuda"
