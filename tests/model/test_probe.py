"""The dense loss beside the loss of a routed training step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tread_bench import RoutedNetwork, dense_loss_probe


class AddsOne(nn.Module):
    """Each block adds its weight, which is one, to every token that it gets; in training mode it draws, too."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, tokens):
        return self.dropout(tokens) + self.weight


@pytest.fixture
def routed():
    return RoutedNetwork(
        nn.ModuleList([AddsOne() for _ in range(4)]),
        embed=lambda net, x, t, y: x,
        blocks=lambda net: [*net],
        head=lambda net, tokens: tokens,
    )


X, T = torch.zeros(2, 8, 3), torch.zeros(2)


def loss(prediction):
    return (prediction - 4).square().mean()


@pytest.mark.parametrize(("routes", "expected"), [("1:2@0.5", 2.0), ("1:1@0.25", 0.25), ("0:2@0", 0.0)])
def test_a_route_alone_raises_the_routed_loss_by_what_bypassed_tokens_lack(routed, routes, expected):
    """A token that bypasses k of the blocks is short of k: its square is counted for the share that bypasses."""
    assert dense_loss_probe(routed, (X, T), loss, routes=routes) == (expected, 0.0)


def test_harm_is_seen_in_the_dense_loss(routed):
    with torch.no_grad():
        routed.network[0].weight.add_(1)
    assert dense_loss_probe(routed, (X, T), loss, routes="1:1@0.5").dense == 1.0


def test_the_training_goes_on_as_without_it(routed):
    routed.train()
    routed.network[2].eval()  # a user's own choice
    routed(X, T).sum().backward()
    gradients = [parameter.grad.clone() for parameter in routed.parameters()]
    state = torch.get_rng_state()
    first = dense_loss_probe(routed, (X, T), loss, routes="1:2@0.5")
    assert dense_loss_probe(routed, (X, T), loss, routes="1:2@0.5") == first
    assert torch.equal(torch.get_rng_state(), state)
    assert [block.training for block in routed.network] == [True, True, False, True] and routed.training
    assert all(torch.equal(p.grad, g) for p, g in zip(routed.parameters(), gradients, strict=True))


def test_modes_are_as_before_after_an_error_too(routed):
    routed.train()
    with pytest.raises(ValueError, match="route"):
        dense_loss_probe(routed, (X, T), loss, routes="1:9@0.5")
    assert all(module.training for module in routed.modules())
