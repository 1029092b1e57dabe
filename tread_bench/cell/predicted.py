"""Activations of a training step, predicted: its forward pass on tensors without values, on a device that need not be
there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.cell.step import ForwardPass
from tread_bench.core.config.compute import StepOptions
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.data.source import DataSource
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure.speed.activations import Activations, count_activations
from tread_bench.model.backbone import build_backbone
from tread_bench.model.fake_device import FakeDevice
from tread_bench.model.network import Network, build_network


def predict_activations(
    cell: Cell, options: StepOptions, kernels: Mapping[str, str], device: torch.device, processes: int
) -> Activations:
    """Return the activations of one process's part of a step, or of a micro batch of it; blocks are not compiled.

    Args:
        kernels: the formulation of each kind of operation, as resolved for the device.

    Raises:
        UserError: a network that a loss needs cannot be read.
        RuntimeError: a block cannot run without values.
    """
    # One process's share of a batch.
    share = -(-cell.training.batch // processes)
    cell = cell.model_copy(update={"training": cell.training.model_copy(update={"batch": share})})
    fake = FakeDevice(device=device)
    network = _network(cell, kernels)
    fake.move(network)
    samples = _Shapes(cell.data, share)
    data = DataSource(samples, samples, cell.data.num_classes)
    step = ForwardPass(cell, 0, network, build_objective(cell.objective), data, device, options)
    batch = step.parts(step.drawn(step.heaviest_step, range(share)))[0].each(fake.holding)

    # Its forward pass on the device.
    with fake:
        return count_activations(network, lambda: step.loss(batch))
    raise RuntimeError(f"activations cannot be predicted: {'; '.join(fake.found)}")


def _network(cell: Cell, kernels: Mapping[str, str]) -> Network:
    """The cell's network without memory."""
    family, spec = cell.backbone.family(), cell.backbone.spec(cell.data)
    with torch.device("meta"):
        return build_network(cell, build_backbone(family, spec, kernels, objective=cell.objective), seed=0)


class _Shapes:
    """Samples of a data source whose files need not be there."""

    sha256 = ""

    def __init__(self, data: DataOptions, count: int) -> None:
        self.shape = (data.channels, data.image_size, data.image_size)
        self._count = count
        self._pictures = (3, *[data.picture_shape[1]] * 2)
        self._text = data.text_shape or ()

    def __len__(self) -> int:
        return self._count

    def images(self, index: NDArray[np.int64]) -> Tensor:
        return torch.zeros(len(index), *self.shape)

    def labels(self, index: NDArray[np.int64]) -> Tensor:
        return torch.zeros(len(index), dtype=torch.long)

    @property
    def empty_text(self) -> Tensor:
        return torch.zeros(self._text)

    def text(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        return torch.zeros(len(index), *self._text)

    def pictures(self, index: NDArray[np.int64], seed: int, first: int) -> Tensor:
        return torch.zeros(len(index), *self._pictures)
