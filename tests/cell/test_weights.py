"""Kept weights: one hash for one content."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn

from tread_bench.cell.weights import load_weights, save_weights


class Plain(nn.Linear):
    adapters = frozenset()


def test_the_same_weights_have_the_same_hash_whenever_they_are_kept(tmp_path):
    torch.manual_seed(0)
    network, other = (SimpleNamespace(backbone=Plain(3, 5), method=nn.Linear(2, 1)) for _ in range(2))
    (sha256,) = {save_weights(tmp_path / "weights", 7, network) for _ in range(20)}
    load_weights(tmp_path / "weights", 7, sha256, other)
    assert torch.equal(other.backbone.weight, network.backbone.weight)
