"""One optimiser step: the same code trains a cell and is timed."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tread_bench.cell import ema
from tread_bench.cell.compiling import Compilation
from tread_bench.cell.optimizer import build_optimizer, learning_rate
from tread_bench.cell.scaling import LossScaler
from tread_bench.core.config.compute import StepOptions
from tread_bench.core.config.suite import Cell
from tread_bench.core.numbers import draws
from tread_bench.core.numbers.schedule import routing_share
from tread_bench.data.loader import Loader
from tread_bench.data.ranks import ALONE, Ranks
from tread_bench.data.source import DataSource, PicturedSplit, flip, training_samples
from tread_bench.diffusion.conditioning import condition, no_condition
from tread_bench.diffusion.objectives.base import Objective
from tread_bench.model.methods.base import BatchRange, Images, Prediction
from tread_bench.model.network import Network

PLAIN = StepOptions()


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of one step's samples, or of a rank's share of them; `y` are labels or text, `pictures` are the
    images beside latents.
    """

    step: int
    x: Tensor
    y: Tensor | None
    pictures: Tensor | None
    range: BatchRange

    def to(self, device: torch.device) -> Self:
        """Return the same on the device; from pinned memory without waiting for the copy."""
        return self.each(lambda tensor: tensor.to(device, non_blocking=True))

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the same with every tensor changed."""
        changed: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                changed[field.name] = change(value)
        return replace(self, range=self.range.each(change), **changed)


@dataclass(frozen=True, slots=True)
class Batch(Stored):
    """Inputs of one step: what is stored, with what is drawn; `noise` is standard normal."""

    t: Tensor
    noise: Tensor

    def split(self, size: int) -> Iterator[Batch]:
        """The same samples, at most `size` at a time."""
        for start in range(0, self.range.count, size):
            part = slice(start, min(start + size, self.range.count))
            part_range = replace(self.range, first=self.range.first + start, count=part.stop - start)
            yield replace(self, range=part_range).each(itemgetter(part))


@dataclass(eq=False)
class ForwardPass:
    """The inputs of training steps, and their loss; `options` change how it is computed, not what.

    Random numbers are drawn on the host, or on the device.
    """

    cell: Cell
    seed: int
    network: Network
    objective: Objective
    data: DataSource
    device: torch.device
    options: StepOptions = PLAIN
    ranks: Ranks = ALONE
    draws: Literal["host", "device"] = "host"

    def __post_init__(self) -> None:
        self.network.backbone.gradient_checkpointing = self.options.gradient_checkpointing

    def batch(self, step: int) -> Batch:
        """Return the inputs of `step`, those of all ranks, on the device."""
        return self.on_device(self._on_host(step, range(self.cell.training.batch)))

    def prepared(self, step: int) -> Stored:
        """Return this rank's inputs of `step` in host memory, in any process, without what the device draws."""
        return self._on_host(step, self.ranks.share(self.cell.training.batch))

    def on_device(self, prepared: Stored) -> Batch:
        """Return the inputs on the device, and draw there what is not drawn yet; the host waits for neither."""
        if self.device.type == "cuda":
            prepared = prepared.each(Tensor.pin_memory)
        moved = prepared.to(self.device)
        return moved if isinstance(moved, Batch) else self.drawn(moved)

    def _on_host(self, step: int, samples: range) -> Stored:
        stored = self.stored(step, samples)
        return stored if self.draws == "device" else self.drawn(stored)

    def parts(self, batch: Batch) -> list[Batch]:
        """Split a batch into its micro batches."""
        size = self.options.micro_batch
        return [batch] if size is None or size >= batch.range.count else list(batch.split(size))

    @property
    def heaviest_step(self) -> int:
        """A step that keeps the most activations: a dense one, where the routes' schedule has some."""
        return 0 if self.cell.schedule.until == 1 else self.cell.training.iterations  # past the end: as at the end

    def stored(self, step: int, samples: range) -> Stored:
        """Return what is stored of some samples of a step, in host memory, in an order drawn epoch by epoch."""
        seed, train = self.seed, self.data.train
        first = step * self.cell.training.batch + samples.start
        items = draws.permuted(seed, "order", first, len(samples), len(train))
        x = training_samples(train, items, seed, first)
        y = condition(self.network.spec, train, items, seed, first)

        # The images beside latents, where a loss sees them.
        pictures = None
        if any(loss.family.sees_images for loss in self.cell.auxiliary) and isinstance(train, PicturedSplit):
            pictures = train.pictures(items, seed, first)

        # The share of the routes' rates at this step.
        share = routing_share(step, self.cell.training.iterations, self.cell.schedule)
        device = self.device if self.draws == "device" else None
        return Stored(step, x, y, pictures, BatchRange(seed, first, len(samples), share, device=device))

    def drawn(self, stored: Stored) -> Batch:
        """Return the inputs of a step, drawn by the samples' index, which is all that they depend on.

        They are the same for every cell of the seed; masks are drawn by route as well.
        """
        samples, x, y = stored.range, stored.x, stored.y

        # Mirrored images, and samples without their label or text.
        if self.cell.data.family.is_flipped(self.cell.data):
            x = flip(x, samples.uniform("flip") < 0.5)
        if y is not None:
            dropped = samples.uniform("label dropout") < self.cell.training.label_dropout
            y = torch.where(dropped.view(-1, *(1,) * (y.ndim - 1)), self._no_condition, y)

        # Noise and times.
        noise = samples.normal("noise", *x.shape[1:])
        t = self.objective.draw_times(samples)

        # Which tokens bypass which route at this step, and what drop path draws.
        batch_range = self.network.method.with_masks(self.network.backbone, samples)
        if drops := self.network.backbone.num_drops:
            batch_range = replace(batch_range, drop_draws=samples.uniform("drop path", drops))
        return Batch(stored.step, x, y, stored.pictures, batch_range, t, noise).to(x.device)

    @cached_property
    def _no_condition(self) -> Tensor:
        """What a sample has without its condition, where the others' conditions are."""
        moved = no_condition(self.network.spec, self.data.train)
        return moved.to(self.device) if self.draws == "device" else moved

    def precision(self) -> AbstractContextManager[object]:
        """Return the context of the network's forward pass."""
        if self.options.autocast == "none":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.options.autocast))

    def loss(self, batch: Batch, network: Network | None = None) -> Tensor:
        """Return the training loss of a batch, a scalar; of another `network` if given."""
        network = network or self.network
        made: list[Prediction] = []  # with what the loss needs beside the output

        def predict(x_t: Tensor, t: Tensor) -> Tensor:
            with self.precision():
                made.append(network.train_forward(x_t, t, batch.y, batch.range))
            return made[-1].output

        # The objective's loss.
        errors = self.objective.errors(predict, batch.x, batch.noise, batch.t)
        prediction = made[-1]
        loss = weighted_mean(errors, prediction.weight)
        if (second := prediction.second) is not None:
            loss = loss + self.objective.errors(lambda x_t, t: second, batch.x, batch.noise, batch.t).mean()
        if not network.auxiliaries:
            return loss

        # The auxiliary losses.
        images = self._images(batch, prediction.output)
        return sum(network.auxiliary_losses(prediction, images), loss)

    def _images(self, batch: Batch, output: Tensor) -> Images:
        """What auxiliary losses compare a prediction with."""
        noised = self.objective.corrupt(batch.x, batch.noise, batch.t)
        denoised = self.objective.clean(lambda x_t, t: output, noised, batch.t)
        return Images(batch.x, noised, denoised, batch.pictures)


class Trainer(ForwardPass):
    """Weights, their average and the optimiser of one cell.

    With several `ranks`, each of which has a trainer, a step computes a rank's share of the samples and sums the
    gradients: all ranks then have the same weights.
    """

    def __post_init__(self) -> None:
        # The weights, and their average in the same order.
        super().__post_init__()
        self.network.to(self.device)
        frozen = {id(p): p for p in self.network.parameters() if not p.requires_grad}  # which need no copy
        self.average = copy.deepcopy(self.network, frozen).eval().requires_grad_(False)
        averaged = dict(self.average.named_parameters())
        self.parameters = [p for _, p in self.named_parameters()]
        self._averages_of = {name: averaged[name] for name, _ in self.named_parameters()}

        # The optimiser.
        self.optimizer = build_optimizer(self.cell.training, self.network, dict(self.named_parameters()))

        self.clock: Callable[[], float] = time.perf_counter

        # How a step computes.
        self.scaler = LossScaler(self.device, enabled=self.options.autocast == "float16")
        self.compilation = Compilation(self.network, self.cell, self.options, self.device, self.ranks.size)
        self._loss = _summed(_Loss(self)) if self.ranks.size > 1 else _Loss(self)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Return what the optimiser changes: the backbone's parameters, then the method's own."""
        return ((name, p) for name, p in self.network.named_parameters() if p.requires_grad)

    def batches(self, steps: Iterable[int]) -> Loader[Stored]:
        """Return the inputs of `steps` in their order, in host memory; those of data on disk are made ahead."""
        _ = self._no_condition  # whose text is opened, or encoded, before processes share it
        workers = 0 if self.data.is_in_memory else self.options.data_workers
        return Loader(self.prepared, steps, workers, self.synchronize, self.clock)

    def synchronize(self) -> None:
        """Wait until the device has finished all its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def now(self) -> float:
        """Return the time in seconds, once the device has finished all its work."""
        self.synchronize()
        return self.clock()

    def seed_torch(self, purpose: str, number: int) -> None:
        """Seed torch's own generators by the cell's seed, what is drawn, and its number."""
        seed = draws.key_of(self.seed, purpose, number) % 2**63
        torch.default_generator.manual_seed(seed)  # 100 times faster than torch.manual_seed, which formats a stack
        if self.device.type == "cuda":
            torch.cuda.manual_seed_all(seed)

    def compile(self, *steps: int) -> float:
        """Compile what these steps run, by computing their gradients, which are not used; return the seconds taken.

        Where the network cannot be compiled as a whole, it is compiled in a simpler way from then on.
        """
        if self.compilation.way == "none":
            return 0.0
        start = self.clock()
        for step in steps:
            batch = self.on_device(self.prepared(step))
            is_compiled = False
            while not is_compiled:
                try:
                    self.backward(batch)
                    is_compiled = True
                except torch._dynamo.exc.TorchDynamoException as error:
                    if self.compilation.way == "blocks":
                        raise
                    self.compilation.fall_back(str(error).partition("\n")[0])
            self.optimizer.zero_grad(set_to_none=True)
        return self.now() - start

    def step(self, batch: Stored) -> Tensor:
        """Make one optimiser step on this rank's share; return the loss before it, a scalar that is not synchronised.

        The sum over the ranks is the loss of the whole batch.
        """
        config = self.cell.training

        # Loss and gradients. What a plug-in draws from torch's own generator is seeded by the step: not to be saved.
        self.seed_torch("torch", batch.range.first)
        loss = self.backward(self.on_device(batch))

        # The optimiser, at this step's learning rate.
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(batch.step, config, self.cell.schedule)
        self.scaler.step(self.optimizer, self.parameters, config.gradient_clip)
        self.optimizer.zero_grad(set_to_none=True)

        # The average follows the weights.
        ema.update(self._averages_of.values(), self.parameters, ema.decay_at(batch.step, config.ema_decay))
        return loss

    def backward(self, batch: Batch) -> Tensor:
        """Scaled gradients of the loss, by micro batches, summed over the ranks; return the loss as `step` does."""
        losses: list[Tensor] = []
        parts = self.parts(batch)
        with self.compilation.active():
            for part in parts:
                with nullcontext() if part is parts[-1] else self._not_summed():
                    loss = self._loss(part) * (part.range.count / self.cell.training.batch)
                    self.scaler.backward(loss)
                losses.append(loss.detach())
        return torch.stack(losses).sum()

    def _not_summed(self) -> AbstractContextManager[None]:
        """Return the context of micro batches whose gradients stay with this rank until the last one's."""
        return self._loss.no_sync() if isinstance(self._loss, DistributedDataParallel) else nullcontext()

    def tensors(self) -> dict[str, Tensor]:
        """A copy of everything that training changes, by name, in host memory: what a checkpoint holds."""
        found = {f"weights.{name}": p.detach() for name, p in self.named_parameters()}
        found |= {f"average.{name}": p for name, p in self._averages_of.items()}
        for name, parameter in self.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                found[f"optimizer.{key}.{name}"] = value
        found |= self.scaler.tensors()
        return {name: value.to("cpu", copy=True).contiguous() for name, value in found.items()}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from what `tensors` gave, bit for bit."""
        # Weights and the optimiser's moments; a parameter that had no gradient yet has none.
        parameters = dict(self.named_parameters())
        for name, parameter in parameters.items():
            parameter.copy_(tensors[f"weights.{name}"])
        for at, value in tensors.items():
            part, _, rest = at.partition(".")
            if part == "optimizer":
                key, _, name = rest.partition(".")
                self.optimizer.state[parameters[name]][key] = value.to(self.device)

        # Their average, and the loss scale.
        for name, parameter in self._averages_of.items():
            parameter.copy_(tensors[f"average.{name}"])
        self.scaler.restore(tensors)


class _Loss(nn.Module):
    """A trainer's loss as a module's forward pass, whose end DDP must see."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__()
        self.network = trainer.network
        self._of = trainer.loss

    def forward(self, batch: Batch) -> Tensor:
        return self._of(batch)


def _summed(loss: nn.Module) -> DistributedDataParallel:
    """Return the same, with gradients summed over the ranks, where DDP by itself averages.

    A method may leave parameters without a gradient in a step. DDP that looks for them also keeps its buckets, so that
    a resumed training sums in the same order.
    """
    parallel = DistributedDataParallel(loss, find_unused_parameters=True)
    parallel.register_comm_hook(None, lambda _, bucket: _sum(bucket.buffer()))
    return parallel


def _sum(gradients: Tensor) -> torch.futures.Future[Tensor]:
    return dist.all_reduce(gradients, async_op=True).get_future().then(lambda future: future.value()[0])


def weighted_mean(errors: Tensor, weight: Tensor | None) -> Tensor:
    """Mean over pixels, then over samples, of errors (B, C, H, W); pixels count by `weight` (B, 1, H, W)."""
    if weight is None:
        return errors.flatten(1).mean(1).mean()
    counted = weight.expand_as(errors).flatten(1)
    return ((errors.flatten(1) * counted).sum(1) / counted.sum(1)).mean()
