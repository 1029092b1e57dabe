"""DiT's branches as operators: against the modules that they replace, with gradients, in float32 and float64."""

from __future__ import annotations

import pytest
import torch

from tread_bench.backbones.dit.family import DiTSpec
from tread_bench.backbones.dit.network import Block, CompiledBlock
from tread_bench.model.ops.cpu import compiling

SPEC = DiTSpec(image_size=8, channels=1, num_classes=3, patch=2, depth=1, hidden=24, heads=2)


def block(kind, dtype=torch.float64, spec=SPEC, scale=0.3):
    """A block of random weights, the same for each kind."""
    generator = torch.Generator().manual_seed(0)
    found = kind(spec, fused_attention=False)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
    return found.to(dtype)


def batch(dtype=torch.float64, count=3, tokens=5, width=24, scale=1.0):
    generator = torch.Generator().manual_seed(1)
    x = scale * torch.randn(count, tokens, width, generator=generator, dtype=torch.float64)
    c = torch.randn(count, width, generator=generator, dtype=torch.float64)
    return x.to(dtype).requires_grad_(), c.to(dtype).requires_grad_()


def computed(found, x, c):
    """Output, and gradients of a loss that weighs every output differently, by name."""
    y = found(x, c)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    named = {"x": x, "c": c, **dict(found.named_parameters())}
    gradients = torch.autograd.grad((y * weights).sum(), [*named.values()])
    return {"y": y.detach(), **dict(zip(named, gradients, strict=True))}


def largest_error(found, expected):
    return max(
        float((found[name].double() - value.double()).abs().max() / value.double().abs().max())
        for name, value in expected.items()
    )


@pytest.mark.parametrize(("count", "tokens"), [(1, 1), (3, 5), (2, 37)])
def test_the_branches_compute_what_their_modules_do_with_gradients(count, tokens):
    expected = computed(block(Block), *batch(count=count, tokens=tokens))
    found = computed(block(CompiledBlock), *batch(count=count, tokens=tokens))
    assert largest_error(found, expected) < 1e-12


def test_no_number_of_threads_changes_a_bit(monkeypatch):
    layers = block(CompiledBlock, torch.float32)
    alone = computed(layers, *batch(torch.float32, count=6))
    monkeypatch.setattr(compiling.torch, "get_num_threads", lambda: 4)  # of the loops; the products stay on one
    spread = computed(layers, *batch(torch.float32, count=6))
    assert all(torch.equal(spread[name], value) for name, value in alone.items())


def test_what_is_not_contiguous_is_computed_all_the_same():
    x, c = batch()
    turned = x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    assert largest_error(computed(block(CompiledBlock), turned, c), computed(block(Block), x, c)) < 1e-12


@pytest.mark.plain_bits
def test_under_autocast_and_compile_the_modules_run():
    found, expected = block(CompiledBlock, torch.float32), block(Block, torch.float32)
    x, c = batch(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(found(x, c), expected(x, c))
    compiled = torch.compile(found, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x, c), expected(x, c))


def test_a_second_derivative_is_refused():
    y = block(CompiledBlock)(*(inputs := batch()))
    with pytest.raises(NotImplementedError, match=r"kernels adaln: torch"):
        torch.autograd.grad(y.sum(), inputs, create_graph=True)
