"""The mixer of DiS and ZigMa: how it begins, and mamba-ssm itself on shared weights."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.backbones.networks import SMALL
from tread_bench import create_backbone

WIDTH = 24  # 48 inner channels, step sizes of rank 2


def test_initial_weights_follow_mambas_rules():
    model = create_backbone("DiS", seed=0, **{**SMALL["DiS"], "hidden": WIDTH}).in_blocks[0].mixer
    for A_log, D in ((model.A_log, model.D), (model.A_b_log, model.D_b)):
        torch.testing.assert_close(A_log.exp(), torch.arange(1.0, 17).expand(2 * WIDTH, 16))
        assert torch.equal(D, torch.ones(2 * WIDTH))
    steps = F.softplus(model.dt_proj.bias)
    assert (steps > 0.00099).all() and (steps < 0.101).all() and steps.max() > 10 * steps.min()
    assert model.dt_proj.weight.abs().max() <= 2**-0.5
    assert torch.equal(model.dt_proj_b.bias, torch.zeros(2 * WIDTH))
    assert model.out_proj.weight.abs().max() <= (2 * WIDTH) ** -0.5 / 2  # of depth 4


@pytest.mark.parametrize("length", [1, 7, 63])
def test_against_mamba_ssm_s_module_on_shared_weights(length, mamba_ssm_oracle, monkeypatch):
    interface, module = (mamba_ssm_oracle(name) for name in ("ops.selective_scan_interface", "modules.mamba_simple"))
    monkeypatch.setattr(module, "selective_scan_fn", interface.selective_scan_ref)
    model = create_backbone("ZigMa", seed=0, **{**SMALL["ZigMa"], "hidden": WIDTH}).blocks[0].mixer
    peer = module.Mamba(WIDTH, use_fast_path=False)
    peer.load_state_dict(model.state_dict())  # the same names and shapes
    results = []
    for one in (model, peer):
        generator = torch.Generator().manual_seed(length)
        x = torch.randn(2, length, WIDTH, generator=generator).requires_grad_()
        y = one(x)
        parameters = dict(one.named_parameters())
        leaves = [x, *(parameters[name] for name, _ in model.named_parameters())]
        results.append((y, *torch.autograd.grad(y, leaves, torch.randn(y.shape, generator=generator))))
    for computed, expected in zip(*results, strict=True):
        assert (computed - expected).abs().max() <= 1e-5 * expected.abs().max()
