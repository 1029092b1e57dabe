"""A training step's forward pass and sampling stay on a GPU and keep the host waiting for nothing, tried without a GPU.

The backward pass and the optimiser need a real one. An operator of `torch.library` is what its fake says.
"""

from __future__ import annotations

from itertools import cycle
from unittest.mock import patch

import pytest
import torch

from tests.captioned_digits import captioned_cell
from tests.fake_device import DEVICE, FakeDevice
from tests.model.methods.subjects import BACKBONES, cell_of
from tread_bench.cell.step import ForwardPass
from tread_bench.core.config.routed import setting_of, with_blocks
from tread_bench.core.config.sampling import Sampling
from tread_bench.core.describe.guidance import guidance_rules
from tread_bench.core.describe.methods import methods
from tread_bench.core.describe.mixers import mixers
from tread_bench.core.describe.objectives import objectives
from tread_bench.data.source import open_data
from tread_bench.diffusion.generate import generate
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.model import samples
from tread_bench.model.backbone import build_backbone
from tread_bench.model.network import build_network

KERNELS = {"attention": "sdpa", "adaln": "torch", "scan": "torch", "wkv": "torch"}  # of any GPU
RULES = {"autoguidance": {"snapshot": 3}}
METHODS_OF_RULES = {"path_drop": "sprint"}

# What may copy to the device, and why.
ALLOWED = {
    "tread_bench.measure.targets:__call__": "REPA's feature network moves to the device at the first step",
    "tread_bench.diffusion.generate:generate": "noise and conditions come by sample index, from the host, once a batch",
    "tread_bench.diffusion.generate:_fresh_noise": "a sampler's noise is drawn by sample index, on the host, too",
    "tread_bench.diffusion.samplers.churn:perturb": "fresh noise is drawn by sample index, on the host, once a step",
    "tread_bench.model.methods.base:draw_kept": "a guided branch's masks are drawn by sample index, on the host",
}
IN_TRAINING = {
    "tread_bench.measure.targets:__call__": ALLOWED["tread_bench.measure.targets:__call__"],
    "tread_bench.cell.step:_no_condition": "once",
    "tread_bench.diffusion.objectives.ddpm.objective:draw_times": "the levels of all steps, without waiting",
}
DRAWN_AHEAD = {"tread_bench.cell.step:<lambda>": "the host must know how many samples skip; without waiting"}


def network_of(cell):
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    return build_network(cell, build_backbone(family, spec, KERNELS, seed=0, objective=cell.objective), seed=0)


def words_there(key, first, count, device):
    """In the place of the kernel."""
    return torch.empty(count, 4, dtype=torch.int64, device=device)


def left_in_training(cell):
    """What of a training step's draws, forward pass and loss leaves the device or waits for it."""
    device = FakeDevice(IN_TRAINING | (DRAWN_AHEAD if cell.method.name == "layer_skip" else {}))
    data, objective = open_data(cell.data), build_objective(cell.objective)
    step = ForwardPass(cell, 0, network_of(cell), objective, data, DEVICE, draws="device")
    stored = step.stored(0, range(cell.training.batch)).each(device.holding)
    device.move(step.network)
    with device, patch.object(samples, "cuda_kernel", lambda: words_there):
        step.loss(step.drawn(stored))
    return device.found


def left_in_sampling(cell):
    device = FakeDevice(ALLOWED)
    data, objective = open_data(cell.data), build_objective(cell.objective)
    network, weak = network_of(cell).eval(), network_of(cell).eval()
    sampling = cell.sampling.model_copy(update={"steps": 3})
    device.move(network)
    device.move(weak)
    with device:
        list(generate(network, objective, sampling, 0, 2, 2, weak, held_out=data.held_out))
    return device.found


@pytest.mark.parametrize(("method", "backbone"), list(zip(methods(), cycle(BACKBONES), strict=False)))
def test_every_method_and_family_stays_on_its_device(method, backbone):
    cell = cell_of(method, backbone)
    assert left_in_training(cell) == left_in_sampling(cell) == []


@pytest.mark.full
@pytest.mark.parametrize("mixer", mixers())
def test_every_mixer_stays_on_its_device(mixer, monkeypatch):
    monkeypatch.setitem(BACKBONES, "varied", BACKBONES["DiG"] | {"mixer": mixer})
    assert left_in_training(cell_of(backbone="varied")) == []


@pytest.mark.parametrize("backbone", ["DiT", "LightningDiT", "MMDiT", "U-ViT", "ZigMa"])
def test_text_stays_on_its_device(backbone):
    sampling = {"guidance": "cfg", "guidance_scale": 1.5}
    sizes = {"name": backbone, "depth": 2, "hidden": 16, "patch": 2} | ({} if backbone == "ZigMa" else {"heads": 2})
    cell = captioned_cell(backbone=sizes, sampling=sampling)
    assert left_in_training(cell) == left_in_sampling(cell) == []


@pytest.mark.parametrize("objective", objectives())
def test_every_objective_and_loss_stays_on_its_device(objective):
    of_data = [] if objectives()[objective].predicts_noise else ["mae"]  # noise leaves the data open
    cell = cell_of(objective=objective, auxiliary=[{"name": "repa", "projector": 8}, *of_data])
    assert left_in_training(cell) == left_in_sampling(cell) == []


def test_a_learned_variance_stays_on_its_device():
    assert left_in_training(cell_of(objective={"name": "ddpm", "learned_variance": True})) == []


@pytest.mark.parametrize("rule", guidance_rules())
def test_every_guidance_rule_stays_on_its_device(rule):
    cell = cell_of(METHODS_OF_RULES.get(rule, "tread"))
    scale = {} if rule == "none" else {"guidance_scale": 1.5}
    sampling = Sampling.model_validate({"guidance": {"name": rule, **RULES.get(rule, {})}, **scale})
    guided = cell.model_copy(update={"sampling": sampling})
    assert left_in_sampling(with_blocks(setting_of(guided))) == []
