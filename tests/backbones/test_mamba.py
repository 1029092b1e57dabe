"""The mixer of DiS and ZigMa: explicit float64 formulas, symmetries, and mamba-ssm itself on shared weights."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.backbones import mixing
from tests.backbones.restated import mixed
from tread_bench.backbones.mamba.mixer import Mamba, init_mamba
from tread_bench.backbones.mixers.mamba2.network import Mamba2
from tread_bench.core.describe.mixers import MixerSize

WIDTH = 24  # 48 inner channels, step sizes of rank 2
LENGTHS = [1, 7, 63]


def mixer(bidirectional=False):
    model = Mamba(WIDTH, "torch", bidirectional)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        for name, module in model.named_modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
            init_mamba(f"mixer.{name}" if name else "mixer", module, depth=4)
    return model


def tokens(length, dtype=torch.float32):
    return torch.randn(2, length, WIDTH, generator=torch.Generator().manual_seed(length)).to(dtype)


def by_hand(model, hidden):
    weights = {f"mixer.{name}": weight for name, weight in model.named_parameters()}
    return torch.stack([mixed(weights, "mixer", sample) for sample in hidden])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_it_is_the_papers_formula_with_every_gradient(length, bidirectional):
    model = mixer(bidirectional).double()
    hidden = tokens(length, torch.float64).requires_grad_()
    weights = torch.randn_like(hidden)
    leaves = [hidden, *model.parameters()]
    results = []
    for forward in (model, lambda x: by_hand(model, x)):
        y = forward(hidden)
        results.append((y, *torch.autograd.grad(y, leaves, weights)))
    for computed, expected in zip(*results, strict=True):
        torch.testing.assert_close(computed, expected, rtol=1e-9, atol=1e-11)


def test_initial_weights_follow_mambas_rules():
    model = mixer(bidirectional=True)
    for A_log, D in ((model.A_log, model.D), (model.A_b_log, model.D_b)):
        torch.testing.assert_close(A_log.exp(), torch.arange(1.0, 17).expand(2 * WIDTH, 16))
        assert torch.equal(D, torch.ones(2 * WIDTH))
    steps = F.softplus(model.dt_proj.bias)
    assert (steps > 0.00099).all() and (steps < 0.101).all() and steps.max() > 10 * steps.min()
    assert model.dt_proj.weight.abs().max() <= 2**-0.5
    assert torch.equal(model.dt_proj_b.bias, torch.zeros(2 * WIDTH))
    assert model.out_proj.weight.abs().max() <= (2 * WIDTH) ** -0.5 / 2  # of depth 4


@pytest.mark.parametrize("length", LENGTHS)
def test_against_mamba_ssm_s_module_on_shared_weights(length, mamba_ssm_oracle, monkeypatch):
    interface, module = (mamba_ssm_oracle(name) for name in ("ops.selective_scan_interface", "modules.mamba_simple"))
    monkeypatch.setattr(module, "selective_scan_fn", interface.selective_scan_ref)
    model, peer = mixer(), module.Mamba(WIDTH, use_fast_path=False)
    peer.load_state_dict(model.state_dict())  # the same names and shapes
    assert_same_output_and_gradients(model, peer, dict(peer.named_parameters()), tokens(length))


def assert_same_output_and_gradients(model, peer, peer_parameters, hidden):
    names = [name for name, _ in model.named_parameters()]
    results = []
    for forward, parameters in ((model, dict(model.named_parameters())), (peer, peer_parameters)):
        x = hidden.clone().requires_grad_()
        y = forward(x)
        weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
        gradients = torch.autograd.grad(y, [x, *(parameters[name] for name in names)], weights)
        results.append((y.detach(), *gradients))
    for name, computed, expected in zip(("output", "input", *names), *results, strict=True):
        assert (computed - expected).abs().max() <= 1e-5 * expected.abs().max(), name


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("length", LENGTHS)
def test_mamba_2_is_its_formula_in_one_direction_and_in_both(length, directions):
    """Output and every gradient in float64."""
    size = MixerSize(WIDTH, heads=1, directions=directions)
    model = Mamba2(size, {})
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        for name, module in model.named_modules():
            model.init_part(name, module)
    model = model.double()
    hidden = tokens(length, torch.float64).requires_grad_()
    weights = torch.randn_like(hidden)
    leaves = [hidden, *model.parameters()]
    results = []
    for forward in (model, lambda x: torch.stack([mixing.mamba2(dict(model.named_parameters()), one) for one in x])):
        y = forward(hidden)
        results.append((y, *torch.autograd.grad(y, leaves, weights)))
    for computed, expected in zip(*results, strict=True):
        torch.testing.assert_close(computed, expected, rtol=1e-8, atol=1e-10)
