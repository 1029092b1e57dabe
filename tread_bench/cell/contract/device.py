"""The contract of everything that computes: on a GPU it stays there, and the host waits for nothing.

    from tread_bench.contract import check_device

    def test_it_stays_on_its_device():
        assert check_device(method={"name": "mean_fill"}) == []

No GPU is needed: a training step's forward pass and loss, the cosine similarity of layers, and sampling run on a CUDA
device that is not there. The backward pass and the optimiser need a real one. Kernels are those that run on every GPU.
An operator of `torch.library` is what its fake says: what it does inside is not seen. Bi-WKV and the recurrences of
mixers in PyTorch read a value there, once a call; Bi-WKV's Triton kernel, which a GPU takes, reads none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from tread_bench.cell.step import ForwardPass
from tread_bench.core.config.routed import setting_of
from tread_bench.core.config.sampling import misfits
from tread_bench.core.describe.guidance import find_guidance
from tread_bench.core.describe.losses import find_loss
from tread_bench.core.describe.objectives import find_objective
from tread_bench.core.describe.plugins import problems_found
from tread_bench.core.describe.routes import RoutesLike
from tread_bench.core.describe.samplers import samplers
from tread_bench.core.describe.violations import Violation
from tread_bench.diffusion.contract.guidance import GuidanceSubject
from tread_bench.diffusion.generate import generate
from tread_bench.diffusion.objectives.base import build_objective
from tread_bench.measure.inside.similarity import block_outputs
from tread_bench.model.backbone import build_backbone
from tread_bench.model.contract.cells import BATCH, SMALL, check_built
from tread_bench.model.fake_device import FakeDevice
from tread_bench.model.network import Network, build_network
from tread_bench.model.ops.similarity import cosine_across_times, cosine_between_layers, unit_vectors
from tread_bench.suite.method_rules import loss_problems

KERNELS = {"attention": "sdpa", "adaln": "torch", "scan": "torch", "wkv": "torch"}  # of any GPU

# What may copy to the device, and why.
ALLOWED_IN_TRAINING = {
    "tread_bench.measure.targets:__call__": "REPA's feature network moves to the device at the first step",
}
ALLOWED_IN_SAMPLING = {
    "tread_bench.diffusion.generate:generate": "noise and conditions come by sample index, from the host, once a batch",
    "tread_bench.diffusion.generate:_fresh_noise": "a sampler's noise is drawn by sample index, on the host, too",
    "tread_bench.diffusion.samplers.churn:perturb": "fresh noise is drawn by sample index, on the host, once a step",
    "tread_bench.model.methods.base:draw_kept": "a guided branch's masks are drawn by sample index, on the host",
}


class DeviceSubject(GuidanceSubject):
    """A cell as a suite would resolve it, with all that computes in it.

    Args:
        written: the guidance rule as a suite writes it.
        method, objective, auxiliary: name and options of each.

    Raises:
        ValueError: options are not valid, or the cell lacks what the rule or a loss needs.
    """

    def __init__(
        self,
        written: Mapping[str, Any],
        method: Mapping[str, Any],
        routes: RoutesLike,
        backbone: Mapping[str, Any],
        objective: Mapping[str, Any],
        auxiliary: Sequence[Mapping[str, Any]],
    ) -> None:
        # The cell with the rule, the objective and the losses.
        rule = find_guidance(written["name"])
        super().__init__(rule, rule.options.model_validate(written), method, routes, backbone)
        losses = tuple(find_loss(loss["name"]).options.model_validate(loss) for loss in auxiliary)
        objectives = find_objective(objective["name"]).options
        chosen = {"objective": objectives.model_validate(objective), "auxiliary": losses}
        self.cell = self.cell.model_copy(update=chosen)
        self.objective = build_objective(self.cell.objective)

        # Losses that do not fit it.
        setting = setting_of(self.cell)
        problems = []
        for options in losses:
            problems += [*loss_problems(options, self.cell.method), *problems_found(options.family, setting, options)]
        if problems:
            raise ValueError("; ".join(problem.message for problem in problems))

    def on_device(self, device: FakeDevice) -> Network:
        """Return the cell's network on the device."""
        network = self.fresh()
        device.move(network)
        return network.eval()

    def fresh(self) -> Network:
        """Return the cell's network, with the kernels of any GPU."""
        objective = self.cell.objective
        backbone = build_backbone(self.backbone_family, self.spec, KERNELS, seed=0, objective=objective)
        return build_network(self.cell, backbone, seed=0)


def check_training(subject: DeviceSubject) -> Iterator[str]:
    """A training step's forward pass and its losses stay on the device."""
    device = FakeDevice(ALLOWED_IN_TRAINING)
    step = ForwardPass(subject.cell, 0, subject.fresh(), subject.objective, subject.data, torch.device("cpu"))
    batch = step.batch(0).each(device.holding)
    device.move(step.network)
    with device:
        step.loss(batch)
    yield from device.found


def check_similarity(subject: DeviceSubject) -> Iterator[str]:
    """So do the outputs of all blocks, and their cosines."""
    device = FakeDevice()
    network = subject.on_device(device)
    x, t = device.holding(subject.x), device.holding(subject.t)
    y = None if subject.y is None else device.holding(subject.y)
    with device, torch.no_grad():
        unit = unit_vectors(block_outputs(network, subject.objective, x, t, y)[:, None].flatten(2, 3))
        cosine_between_layers(unit)
        cosine_across_times(unit)
    yield from device.found


def check_sampling(subject: DeviceSubject) -> Iterator[str]:
    """So does sampling under the guidance rule, by every sampler that fits, apart from what is listed."""
    for name in samplers():
        sampling = subject.cell.sampling.model_copy(update={"sampler": name})
        if [*misfits(sampling, subject.cell.objective)]:
            continue
        device = FakeDevice(ALLOWED_IN_SAMPLING)
        network, weak = subject.on_device(device), subject.on_device(device)
        with device:
            list(generate(network, subject.objective, sampling, 0, BATCH, BATCH, weak, held_out=subject.data.held_out))
        yield from device.found


DEVICE_CHECKS = (check_training, check_similarity, check_sampling)


def check_device(
    *,
    backbone: Mapping[str, Any] | None = None,
    method: Mapping[str, Any] | None = None,
    routes: RoutesLike = "1:3@0.5",
    objective: Mapping[str, Any] | None = None,
    auxiliary: Sequence[Mapping[str, Any]] = (),
    guidance: Mapping[str, Any] | None = None,
) -> list[Violation]:
    """Return what of a cell would leave a GPU, or keep the host waiting for it, in the order of `DEVICE_CHECKS`: copies
    between devices, operands on two devices, values that the host reads; empty if there is nothing.

    Args:
        backbone: name and sizes; the default is a DiT of 5 blocks and width 16.
        method: name and options; the default is TREAD.
        routes: of the cell; left out for a method that takes none.
        objective: name and options; the default is flow matching.
        auxiliary: losses, each with its name and options.
        guidance: name and options; the default is none.

    Raises:
        ValueError: the options are not valid, or do not fit together.
    """
    build = partial(
        DeviceSubject,
        guidance or {"name": "none"},
        method or {"name": "tread"},
        routes,
        backbone or SMALL,
        objective or {"name": "flow"},
        auxiliary,
    )
    return check_built(DEVICE_CHECKS, build, "a builder")
