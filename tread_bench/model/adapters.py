"""Adapters of a frozen backbone: low-rank products beside its linear layers (LoRA, arXiv 2106.09685), by PEFT."""

from __future__ import annotations

import re

import torch
from torch import nn

from tread_bench.core.config.training import Lora
from tread_bench.core.errors import UserError
from tread_bench.model.backbone import Backbone, draw_weights
from tread_bench.model.matrices import layers_over_tokens


def add_adapters(backbone: Backbone, lora: Lora, seed: int) -> None:
    """Freeze a backbone, and add B A x to every linear layer of x that its blocks call on tokens.

    A (rank, inputs) is drawn as PEFT draws it, by name; B (outputs, rank) is zero, so that the network still computes
    the same. `backbone.adapters` are the names of both, which alone have a gradient.

    Raises:
        UserError: PEFT is not installed, or the blocks call no linear layer.
    """
    try:
        import peft
    except ImportError as error:
        raise UserError(f"training.lora needs peft ({error}): pip install 'tread-bench[lora]'") from None
    layers = layers_over_tokens(backbone.family, backbone.spec)
    if not layers:
        raise UserError(
            f"training.lora: the blocks of {backbone.family.name} call no torch.nn.Linear on tokens, so there is none "
            "that could have an adapter; leave it out, or choose another backbone"
        )
    config = peft.LoraConfig(r=lora.rank, lora_alpha=lora.rank, target_modules="|".join(map(re.escape, layers)))
    with torch.random.fork_rng(devices=[]):
        peft.inject_adapter_in_model(config, backbone)
    draw_weights(backbone, seed, _draw, "adapters.")
    backbone.adapters = frozenset(name for name, weight in backbone.named_parameters() if weight.requires_grad)


def _draw(name: str, module: nn.Module) -> None:
    if ".lora_A." in name and isinstance(module, nn.Linear):
        module.reset_parameters()
