"""Muon for the matrices of blocks, AdamW for the rest: which weights, which step, and one state that is stored."""

from __future__ import annotations

import math

import pytest
import torch

from tests.backbones.networks import TEXT
from tests.cell.test_step import ROUTED, make_cell, make_trainer
from tests.small_backbones import BACKBONES
from tests.toy_suite import toy_suite, write_suite
from tread_bench.cell import optimizer
from tread_bench.cli.costs import add_state, plan_table
from tread_bench.core.describe.families import make_spec
from tread_bench.core.errors import UserError
from tread_bench.model.backbone import build_backbone
from tread_bench.model.matrices import layers_over_tokens
from tread_bench.suite.load import load_plan

MUON = {"optimizer": "muon", "weight_decay": 0.1}
STATE = ("weights", "average", "optimizer")
NS = (3.4445, -4.7750, 2.0315)  # Jordan's coefficients
MOMENTUM = 0.95
IN_BFLOAT16 = 5 * 3 * 2**-8  # five iterations of three products, each of which rounds


def muon(**training):
    return {"training": {**MUON, **training}}


@pytest.mark.parametrize("text", [False, True], ids=["labels", "text"])
@pytest.mark.parametrize("family", BACKBONES)
def test_matrices_of_tokens_are_told_from_all_else(family, text):
    """By name they are the linear layers of blocks, but for modulations of a sample's condition, and Mamba's `dt_proj`,
    whose weight alone is read.
    """
    if text and family not in TEXT:
        pytest.skip("takes no text")
    given = {"image_size": 8, "channels": 1, "num_classes": 10, **BACKBONES[family], **(TEXT[family] if text else {})}
    found, spec = make_spec(**given)
    model = build_backbone(found, spec)
    linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    expected = {name for name in linear if "block" in name and "adaLN" not in name and "dt_proj" not in name}
    layers = layers_over_tokens(found, spec)
    assert layers.keys() == expected
    assert layers == {name: tuple(model.get_submodule(name).weight.shape) for name in layers}


def newton_schulz(G, dtype=torch.float64):
    """Five steps of Jordan's quintic iteration from G over its Frobenius norm, with fewer rows than columns."""
    a, b, c = NS
    X = (G.T if G.shape[0] > G.shape[1] else G).to(dtype)
    X = X / X.norm().clamp(min=1e-7)
    for _ in range(5):
        A = X @ X.T
        X = torch.addmm(X, torch.addmm(A, A, A, beta=b, alpha=c), X, beta=a)  # each rounded once
    return (X.T if G.shape[0] > G.shape[1] else X).double()


def test_three_steps_are_those_of_the_equations_in_float64():
    """The way of each matrix and of each other weight; Newton-Schulz alone is in bfloat16, as it is published."""
    lr, decay, betas = 1e-3, 0.1, (0.9, 0.999)
    trainer = make_trainer(make_cell(**ROUTED, **muon()))
    parameters = dict(trainer.named_parameters())
    torch.manual_seed(0)
    for p in parameters.values():  # so that no gradient is zero or of low rank
        p.data += 0.2 * torch.randn_like(p)
    backbone = trainer.network.backbone
    hidden = {f"backbone.{name}.weight" for name in layers_over_tokens(backbone.family, backbone.spec)}
    assert 0 < len(hidden) < len(parameters)
    gradients = {}

    def note(name):
        return lambda p: gradients.__setitem__(name, p.grad.double())

    for name, p in parameters.items():
        p.register_post_accumulate_grad_hook(note(name))
    weights = {name: p.detach().double() for name, p in parameters.items()}
    first = {name: w.clone() for name, w in weights.items()}
    moments = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in weights.items()}
    for step in (1, 2, 3):
        trainer.step(trainer.batch(step - 1))
        for name, g in gradients.items():
            w, (m, v) = weights[name] * (1 - lr * decay), moments[name]
            if name in hidden:
                m = MOMENTUM * m + (1 - MOMENTUM) * g
                way = newton_schulz((1 - MOMENTUM) * g + MOMENTUM * m, torch.bfloat16)
                w = w - lr * 0.2 * math.sqrt(max(w.shape)) * way
            else:
                m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
                w = w - lr * (m / (1 - betas[0] ** step)) / ((v / (1 - betas[1] ** step)).sqrt() + 1e-8)
            weights[name], moments[name] = w, (m, v)
    for name, p in parameters.items():
        way, expected = p.detach().double() - first[name], weights[name] - first[name]
        assert (way - expected).norm() <= (IN_BFLOAT16 if name in hidden else 1e-3) * expected.norm(), name


def test_the_rate_that_a_schedule_gives_is_that_of_both_parts():
    trainer = make_trainer(make_cell(**muon(decay="linear")))
    trainer.step(trainer.batch(0)), trainer.step(trainer.batch(11))
    assert {group["lr"] for group in trainer.optimizer.param_groups} == {1e-3 / 12}


def test_adamw_is_fused():
    assert make_trainer(make_cell()).optimizer.param_groups[0]["fused"]


def test_memory_of_its_state_is_what_a_plan_says(tmp_path):
    text = toy_suite(20, 20).replace("  dense: {}", "  dense: {}\n  muon: {training: {optimizer: muon}}")
    plan = load_plan(write_suite(tmp_path, text))
    rows = plan_table(plan)
    add_state(rows, plan)
    for row in rows:
        trainer = make_trainer(plan.rows[row["row"]][0].cell)
        trainer.step(trainer.batch(0))
        kept = sum(t.numel() * 4 for k, t in trainer.tensors().items() if k.split(".")[0] in STATE and t.ndim)
        gradients = 4 * sum(p.numel() for p in trainer.parameters)
        frozen = 4 * sum(p.numel() for p in trainer.network.parameters() if not p.requires_grad)
        assert row["optimizer"] == trainer.cell.training.optimizer
        assert row["state_bytes"] == pytest.approx(kept + gradients, abs=5 * frozen)
    assert rows[1]["state_bytes"] < rows[0]["state_bytes"] == rows[2]["state_bytes"]


def test_a_torch_without_it_is_refused(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(UserError, match=r"muon: torch has it from 2\.9 on, and .* is installed"):
        make_trainer(make_cell(**muon()))


def test_blocks_without_a_matrix_are_refused(monkeypatch):
    monkeypatch.setattr(optimizer, "layers_over_tokens", lambda family, spec: {})
    with pytest.raises(UserError, match=r"blocks of DiT have no linear layer over tokens.*choose adamw"):
        make_trainer(make_cell(**muon()))
