"""Kept weights: one hash for one content."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from safetensors import safe_open
from torch import nn

from tests.toy_suite import OWNER
from tread_bench.cell.weights import load_weights, save_weights
from tread_bench.core.stored.identity import read_stamp


class Plain(nn.Linear):
    adapters = frozenset()


def test_the_same_weights_have_the_same_hash_whenever_they_are_kept(tmp_path):
    torch.manual_seed(0)
    network, other = (SimpleNamespace(backbone=Plain(3, 5), method=nn.Linear(2, 1)) for _ in range(2))
    (sha256,) = {save_weights(tmp_path / "weights", 7, network, OWNER) for _ in range(20)}
    load_weights(tmp_path / "weights", 7, sha256, other, OWNER)
    assert torch.equal(other.backbone.weight, network.backbone.weight)
    with safe_open(tmp_path / "weights" / "7.safetensors", "pt") as file:
        assert read_stamp(file.metadata()) == OWNER.stamp(7)


@pytest.mark.parametrize("owner", ["somebody", "[1]", "null", "{"])
def test_an_owner_that_another_program_wrote_is_none(owner: str) -> None:
    assert read_stamp({"owner": owner}) == read_stamp({}) == read_stamp(None) == {}
