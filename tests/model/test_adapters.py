"""Low-rank adapters: the dense network at first, then W + B A, and what they cost."""

from __future__ import annotations

import copy
import sys

import pytest
import torch

from tests.model.methods.subjects import BACKBONES, cell_of, inputs, network_of
from tread_bench.core.config.training import Lora
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.costs import cell_cost, training_macs
from tread_bench.model import adapters
from tread_bench.model.adapters import add_adapters
from tread_bench.model.backbone import build_backbone
from tread_bench.model.matrices import layers_over_tokens

pytest.importorskip("peft")
RANK = 2
PLAIN = {"attention": "math", "adaln": "torch", "scan": "torch", "wkv": "torch"}
COMPILED = {"attention": "math", "adaln": "numba", "scan": "numba", "wkv": "numba"}


def pair(family="DiT", kernels=PLAIN, seed=3):
    """A backbone whose every weight counts, and the same one with fresh adapters."""
    cell = cell_of("dense", family)
    dense = build_backbone(cell.backbone.family(), cell.backbone.spec(cell.data), kernels, 0).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in dense.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator))
    adapted = copy.deepcopy(dense)
    add_adapters(adapted, Lora(rank=RANK), seed)
    return dense, adapted


def layers_of(backbone):
    """The layers with an adapter by name, each with its A and B."""
    found = {name: backbone.get_submodule(name) for name in layers_over_tokens(backbone.family, backbone.spec)}
    return {name: (layer.lora_A["default"].weight, layer.lora_B["default"].weight) for name, layer in found.items()}


def adapted_cell(method="dense", **training):
    """Only timed, so that it starts from nothing."""
    training = {"iterations": 0, "batch": 6, "lora": {"rank": RANK}, **training}
    return cell_of(method, training=training)


@pytest.mark.parametrize("family", BACKBONES)
def test_fresh_adapters_leave_the_network_as_it_is_bit_for_bit_dense_and_routed(family):
    dense, adapted = pair(family)
    x, t, y = inputs()
    for routes in ((), "1:3@0.5"):
        outputs = []
        for network in (dense, adapted):
            outputs.append(network(x, t, y, routes=routes, generator=torch.Generator().manual_seed(0)))
        assert torch.equal(*outputs) and outputs[0].std() > 0


@pytest.mark.parametrize(
    ("family", "kernels"),
    [*((family, PLAIN) for family in BACKBONES), *((family, COMPILED) for family in ("DiT", "DiS", "DRWKV"))],
    ids=str,
)
def test_adapters_alone_have_a_gradient_and_each_of_them_has_an_effect(family, kernels):
    """Also where a block has a compiled operator, which would read the weights beside them."""
    _, adapted = pair(family, kernels)
    trained = {name for name, weight in adapted.named_parameters() if weight.requires_grad}
    layers = layers_of(adapted)
    assert trained == adapted.adapters and len(trained) == 2 * len(layers) > 0
    x, t, y = inputs()
    adapted(x, t, y).square().sum().backward()
    assert all(b.grad.abs().sum() > 0 for _, b in layers.values())
    assert all(weight.grad is None for name, weight in adapted.named_parameters() if name not in trained)


@pytest.mark.parametrize("family", ["DiT", "U-ViT"])
def test_a_network_with_adapters_computes_with_w_plus_b_a_and_so_do_its_gradients(family):
    """In float64: dL/dB = dL/dW A^T and dL/dA = B^T dL/dW, for the merged matrix W + B A."""
    dense, adapted = (network.double() for network in pair(family))
    layers = layers_of(adapted)
    with torch.no_grad():
        for name, (a, b) in layers.items():
            b.copy_(torch.linspace(-0.1, 0.1, b.numel()).view_as(b))
            dense.get_submodule(name).weight.add_(b @ a)
    x, t, y = inputs()
    x, t = x.double(), t.double()
    outputs = []
    for network in (dense, adapted):
        outputs.append(network(x, t, y, routes="1:3@0.5", generator=torch.Generator().manual_seed(0)))
        outputs[-1].square().sum().backward()
    assert torch.allclose(*outputs, rtol=1e-12, atol=1e-12)
    for name, (a, b) in layers.items():
        gradient = dense.get_submodule(name).weight.grad
        assert torch.allclose(b.grad, gradient @ a.T, rtol=1e-9, atol=1e-12)
        assert torch.allclose(a.grad, b.T @ gradient, rtol=1e-9, atol=1e-12)


def test_they_are_drawn_by_seed_and_name():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    _, first = pair(seed=3)
    assert torch.equal(torch.get_rng_state(), state)  # and torch's own generator is left alone
    again, other = layers_of(pair(seed=3)[1]), layers_of(pair(seed=4)[1])
    for name, (a, b) in layers_of(first).items():
        assert torch.equal(a, again[name][0]) and not torch.equal(a, other[name][0])
        assert a.std() > 0 and not b.any()


@pytest.mark.parametrize(("method", "kept"), [("dense", 16), ("tread", 8)])
def test_costs_are_counted_as_the_closed_form_says(method, kept):
    """Of a frozen layer, a backward pass has the gradient of its input alone; of an adapter, of both matrices and
    inputs. Before the first adapter there is none.
    """
    cell = adapted_cell(method)
    spec = cell.backbone.spec(cell.data)
    width, tokens = spec.hidden, [16, kept, kept, kept, 16]
    shapes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    frozen = sum(a * b for a, b in shapes)  # per token and block
    added = RANK * sum(a + b for a, b in shapes)
    attention = sum(2 * n * n * width for n in tokens)
    plain, cost = cell_cost(cell_of(method)), cell_cost(cell)

    forward = plain.forward_macs + sum(tokens) * added
    assert cost.forward_macs == forward
    assert cost.attention_macs == plain.attention_macs == attention
    assert (cost.trainable_params, cost.frozen_params) == (5 * added, plain.params)
    assert cost.stored_params == 5 * added and cost.params == plain.params + 5 * added
    head = 16 * width * spec.patch**2 * spec.out_channels
    first = 16 * (3 * width * width + RANK * width)  # inputs of the first layer and of its A
    backward = sum(tokens) * (frozen + 2 * added) + 2 * attention + head - first
    assert cost.train_step_macs == forward + backward
    assert cost.ideal_speedup == pytest.approx((cell_cost(adapted_cell()).forward_macs) / forward)
    assert training_macs(adapted_cell(method, iterations=0), 1) == cost.train_step_macs * 6


def test_without_peft_or_layers_there_is_one_error(monkeypatch):
    backbone = network_of(cell_of("dense")).backbone
    monkeypatch.setattr(adapters, "layers_over_tokens", lambda family, spec: {})
    with pytest.raises(UserError, match="the blocks of DiT call no torch"):
        add_adapters(backbone, Lora(rank=1), 0)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UserError, match=r"pip install 'tread-bench\[lora\]'"):
        add_adapters(backbone, Lora(rank=1), 0)
