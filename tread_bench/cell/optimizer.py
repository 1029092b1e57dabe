"""The optimiser of a cell, AdamW, or Muon for the matrices that blocks apply to tokens; and its learning rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from tread_bench.core.config.training import RoutingSchedule, Training
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.schedule import dense_from
from tread_bench.model.matrices import layers_over_tokens
from tread_bench.model.network import Network


def build_optimizer(
    config: Training, network: Network, parameters: Mapping[str, nn.Parameter]
) -> torch.optim.Optimizer:
    """Return the optimiser that a training asks for.

    Args:
        parameters: those of the network that are trained, by name.

    Raises:
        UserError: it is Muon, which the installed torch does not have, or the blocks apply no matrix to tokens.
    """
    # AdamW, or Muon where torch has it.
    if config.optimizer == "adamw":
        return _adamw(config, [*parameters.values()])
    if not hasattr(torch.optim, "Muon"):
        rule = f"torch has it from 2.9 on, and {torch.__version__} is installed: install a newer one, or choose adamw"
        raise UserError(f"training.optimizer muon: {rule}")

    # Muon for the matrices that blocks apply to tokens, and AdamW for the others.
    backbone = network.backbone
    layers = layers_over_tokens(backbone.family, backbone.spec)
    names = {f"backbone.{layer}.weight" for layer in layers} & parameters.keys()
    if not names:
        raise UserError(
            f"training.optimizer muon: the blocks of {backbone.family.name} have no linear layer over tokens, so it "
            "would train nothing; choose adamw"
        )
    hidden = [parameter for name, parameter in parameters.items() if name in names]
    others = [parameter for name, parameter in parameters.items() if name not in names]
    return MuonAndAdamW(config, hidden, others)


def _adamw(config: Training, parameters: list[nn.Parameter]) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        parameters, lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay, fused=True
    )


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon for some matrices and AdamW for other parameters, as one optimiser with a group of parameters for each.

    Muon (Jordan et al., 2024) replaces a matrix's momentum by the nearest matrix that is orthogonal. Its steps are
    scaled by 0.2 sqrt(max(rows, columns)) (Moonlight, arXiv 2502.16982), which gives them the size of AdamW's: both
    have the same learning rate and weight decay.
    """

    def __init__(self, config: Training, matrices: list[nn.Parameter], others: list[nn.Parameter]) -> None:
        muon = torch.optim.Muon(
            matrices, lr=config.learning_rate, weight_decay=config.weight_decay, adjust_lr_fn="match_rms_adamw"
        )
        self._parts = (muon, _adamw(config, others))
        super().__init__([part.param_groups[0] for part in self._parts], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make a step of both; return what `closure` does."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part, group in zip(self._parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state
            part.step()
        return loss


def learning_rate(step: int, training: Training, schedule: RoutingSchedule) -> float:
    """Return the rate at `step` (from 0): the training's, or that of the schedule's dense part, which rises linearly
    over the warm-up and falls over the decay, to 0 after the last step.
    """
    dense = dense_from(training.iterations, schedule)
    rate = training.learning_rate
    if dense is not None and step >= dense and schedule.dense_learning_rate is not None:
        rate = schedule.dense_learning_rate
    if step < training.warmup:
        rate *= (step + 1) / training.warmup
    falling, left = round(training.decay.span * training.iterations), max(0, training.iterations - step)
    return rate * training.decay.factor(left / falling) if left < falling else rate
