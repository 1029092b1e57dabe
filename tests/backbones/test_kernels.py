"""The contract and the numbers of a backbone hold with every kernel that a CPU has."""

from __future__ import annotations

import pytest
import torch

from tread_bench.core.describe.families import families
from tread_bench.model.backbone import build_backbone

SMALL = {"image_size": 8, "channels": 2, "num_classes": 3, "patch": 2, "hidden": 32}
SIZES = {"DiS": {"depth": 4}, "ZigMa": {"depth": 4}, "DRWKV": {"depth": 5}, "DiT": {"depth": 3, "heads": 2}}
NUMBA = {"attention": "math", "adaln": "numba", "scan": "numba", "wkv": "numba"}


@pytest.mark.parametrize("name", SIZES)
def test_compiled_kernels_change_rounding_alone(name):
    family = families()[name]
    spec = family.spec(**SMALL, **SIZES[name])
    generator = torch.Generator().manual_seed(0)
    x, t, y = torch.randn(3, 2, 8, 8, generator=generator), torch.rand(3, generator=generator), torch.arange(3)
    predictions = []
    for kernels in ({"attention": "math"}, NUMBA):
        model = build_backbone(family, spec, kernels, seed=0)
        for parameter in model.parameters():
            parameter.data.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
        predictions.append(model.eval()(x, t, y))
    expected, computed = predictions
    assert (computed - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert not torch.equal(computed, expected)  # the kernel was asked for, and used
