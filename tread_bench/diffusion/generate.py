"""Image generation: noise and masks by sample index, labels or captions in turn, any batch size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from tread_bench.core.config.sampling import Sampling
from tread_bench.core.numbers import draws
from tread_bench.data.source import DataSplit
from tread_bench.diffusion.conditioning import held_out_condition, no_condition
from tread_bench.diffusion.guidance import Guided
from tread_bench.diffusion.objectives.base import Objective, Predict
from tread_bench.diffusion.samplers.churn import churned
from tread_bench.diffusion.samplers.integrate import build_sampler, integrate
from tread_bench.model.methods.base import BatchRange
from tread_bench.model.network import Network


def generate(
    network: Network,
    objective: Objective,
    sampling: Sampling,
    seed: int,
    num_samples: int,
    batch: int,
    weak: Network | None = None,
    labels: Sequence[int] | None = None,
    turn: tuple[int, int] = (0, 1),
    held_out: DataSplit | None = None,
) -> Iterator[Tensor]:
    """Yield batches of images (B, C, H, W), float32. A sample's noise, condition and masks depend only on its index.

    Args:
        weak: the network of guidance's weak branch, if that has weights of its own.
        labels: labels to use in rotation; None: all classes.
        turn: (k, n) yields the k-th of every n batches alone.
        held_out: samples whose captions are used in rotation, one of each, by a network that takes text.

    The network computes in float32. The integrated state is held in float64, as in EDM's code: with many short steps,
    rounding errors of the state would add up, and for images the cost is negligible next to the network's.
    """
    spec = network.spec
    device = next(network.parameters()).device
    shape = (spec.channels, spec.image_size, spec.image_size)
    times = objective.sampling_times(sampling.steps)

    # Labels or captions in rotation.
    condition, empty_text = partial(_labels, range(spec.num_classes) if labels is None else labels), None
    if spec.context_shape is not None:
        assert held_out is not None, "a network that takes text was given no captions"
        condition, empty_text = partial(held_out_condition, spec, held_out), no_condition(spec, held_out).to(device)

    # What a sampler is told: the velocity, and the variance if it draws noise by a learned one.
    with_variance = sampling.sampler_family.draws_noise and network.backbone.returns_variance
    of_output = objective.velocity_and_variance if with_variance else objective.velocity

    for first in range(turn[0] * batch, num_samples, turn[1] * batch):
        # Noise and conditions of this batch.
        count = min(batch, num_samples - first)
        noise = torch.from_numpy(draws.normal(seed, "sampling noise", first, count, shape)).to(device)
        y = condition(first, count)
        y = None if y is None else y.to(device)

        # Integrate the guided prediction's velocity, with fresh noise before each step if churn is set.
        predict = Guided(network, sampling, times, BatchRange(seed, first, count), y, weak, empty_text)
        velocity = partial(of_output, _in_float32(predict))
        perturb = churned(sampling.churn, sampling.steps, seed, first) if sampling.churn else None
        fresh = partial(_fresh_noise, seed, first) if sampling.sampler_family.draws_noise else None

        # From noise to images.
        with torch.no_grad():
            start = objective.prior(noise.double())
            images = integrate(build_sampler(sampling.sampler_family), velocity, start, times, perturb, fresh)
        predict.check_complete()
        yield images.float()


def _fresh_noise(seed: int, first: int, x: Tensor, step: int) -> Tensor:
    """Standard normal noise (B, C, H, W) of a step, which depends only on the seed, the step and the sample index."""
    return torch.from_numpy(draws.normal(seed, f"sampler {step}", first, len(x), tuple(x.shape[1:]))).to(x)


def _labels(in_turn: Sequence[int], first: int, count: int) -> Tensor | None:
    """Labels (B,) of the samples from `first` on; None if there are no labels."""
    if not in_turn:
        return None
    return torch.tensor(in_turn)[torch.arange(first, first + count) % len(in_turn)]


def _in_float32(predict: Predict) -> Predict:
    return lambda x, t: predict(x.float(), t.float())
