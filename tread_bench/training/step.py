"""One optimiser step: the same code trains a cell and is timed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tread_bench import draws
from tread_bench.config import Cell
from tread_bench.data import DataSource, flip
from tread_bench.methods import Method, Network, Rows
from tread_bench.objectives import Objective
from tread_bench.training import ema
from tread_bench.training.schedule import warmup_factor


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs of one step, on the device; `noise` is standard normal."""

    x: Tensor
    y: Tensor | None
    t: Tensor
    noise: Tensor
    rows: Rows


class Trainer:
    """Weights, their average and the optimiser of one cell.

    Args:
        autocast: "none" or "bfloat16", for the network's forward pass.
    """

    def __init__(
        self,
        cell: Cell,
        seed: int,
        network: Network,
        objective: Objective,
        data: DataSource,
        device: torch.device,
        autocast: str = "none",
    ) -> None:
        self.cell, self.seed, self.data, self.device = cell, seed, data, device
        self.objective, self.autocast = objective, autocast
        self.network = network.to(device)
        self.average = copy.deepcopy(self.network).eval().requires_grad_(False)
        self.parameters = [p for _, p in self.named_parameters()]
        config = cell.training
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=config.learning_rate,
            betas=config.betas,
            weight_decay=config.weight_decay,
            fused=True,
        )
        averaged = dict(self.average.named_parameters())
        self._averaged = [averaged[name] for name, _ in self.named_parameters()]

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """What the optimiser changes: the backbone's parameters, then the method's own."""
        return ((name, p) for name, p in self.network.named_parameters() if p.requires_grad)

    def batch(self, step: int) -> Batch:
        """The inputs of `step`, drawn by sample index: the same for every cell of the seed."""
        size, spec, seed = self.cell.training.batch, self.network.spec, self.seed
        first = step * size
        train = self.data.train
        items = draws.permuted(seed, "order", first, size, len(train))
        x = train.images(items)
        if getattr(self.cell.data, "horizontal_flip", False):
            x = flip(x, torch.from_numpy(draws.uniform(seed, "flip", first, size) < 0.5))
        noise = torch.from_numpy(draws.normal(seed, "noise", first, size, tuple(x.shape[1:])))
        t = self.objective.draw_times(seed, first, size)
        y = self._labels(items, first) if spec.num_classes else None
        to = self.device
        return Batch(x.to(to), y if y is None else y.to(to), t.to(to), noise.to(to), Rows(seed, first, size))

    def _labels(self, items: np.ndarray, first: int) -> Tensor:
        labels = self.data.train.labels(items)
        dropped = draws.uniform(self.seed, "label dropout", first, len(items)) < self.cell.training.label_dropout
        return labels.masked_fill(torch.from_numpy(dropped), self.network.spec.num_classes)

    def precision(self) -> AbstractContextManager[object]:
        """The context of the network's forward pass."""
        if self.autocast == "none":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.autocast))

    def loss(self, batch: Batch, method: Method | None = None) -> Tensor:
        """The training loss of a batch, a scalar; of another `method` on the same weights where one is given."""
        network = self.network if method is None else Network(self.network.backbone, method)
        auxiliary: list[Tensor] = []

        def predict(x_t: Tensor, t: Tensor) -> Tensor:
            with self.precision():
                prediction = network.train_forward(x_t, t, batch.y, batch.rows)
            if prediction.auxiliary_loss is not None:
                auxiliary.append(prediction.auxiliary_loss)
            return prediction.output

        return sum(auxiliary, self.objective.losses(predict, batch.x, batch.noise, batch.t).mean())

    def step(self, step: int) -> Tensor:
        """One optimiser step; the loss (a scalar on the device, not synchronised) before it."""
        config = self.cell.training
        # Drop path draws from torch's own generator: seeded by the step, it needs no saving either.
        torch.manual_seed(draws.key_of(self.seed, "torch", step) % 2**63)
        loss = self.loss(self.batch(step))
        loss.backward()
        if config.gradient_clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, config.gradient_clip)
        for group in self.optimizer.param_groups:
            group["lr"] = config.learning_rate * warmup_factor(step, config.warmup)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        ema.update(self._averaged, self.parameters, ema.decay_at(step, config.ema_decay))
        return loss.detach()

    def tensors(self) -> dict[str, Tensor]:
        """Everything that training changes, by name: what a checkpoint holds."""
        found = {f"weights.{name}": p.detach() for name, p in self.named_parameters()}
        found |= {f"average.{name}": p for name, p in self.average.named_parameters()}
        for name, parameter in self.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                found[f"optimizer.{key}.{name}"] = value
        return {name: value.contiguous().cpu() for name, value in found.items()}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take over what `tensors` gave, bit for bit."""
        for name, parameter in self.named_parameters():
            parameter.copy_(tensors[f"weights.{name}"])
            self.optimizer.state[parameter] = {
                key: tensors[f"optimizer.{key}.{name}"].to(self.device) for key in ("step", "exp_avg", "exp_avg_sq")
            }
        for name, parameter in self.average.named_parameters():
            parameter.copy_(tensors[f"average.{name}"])
