"""Trajectories over DDPM's levels, held against the papers' equations over z, restated in float64."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from tread_bench.core.describe.objectives import samplers
from tread_bench.diffusion.objectives.ddpm.family import SCHEDULES, DdpmOptions, noise_levels
from tread_bench.diffusion.objectives.ddpm.objective import Ddpm
from tread_bench.diffusion.samplers.integrate import build_sampler, integrate

SHAPE = (3, 2, 4, 4)


def network(z, step):
    """Noise and variance that depend on all channels and on the step; without the variance, its first half."""
    channels = z.shape[1]
    mix = torch.linspace(-1, 1, 2 * channels**2, dtype=torch.float64).view(2 * channels, channels)
    return torch.einsum("oc,bchw->bohw", mix, z).sin() * (0.9 - step.double().view(-1, 1, 1, 1) / 2500)


class Walk:
    """A sampling of few steps: the kept products of alphas at each, from the noisiest on, and 1 at the end."""

    def __init__(self, schedule, steps, learned=False):
        self.ddpm = Ddpm(DdpmOptions(schedule=schedule, learned_variance=learned))
        self.times = self.ddpm.sampling_times(steps)
        generator = torch.Generator().manual_seed(0)
        self.start, *self.noise = torch.randn(steps + 1, *SHAPE, generator=generator, dtype=torch.float64)
        levels = torch.tensor(self.times, dtype=torch.float64)
        self.kept = 1 / (1 + levels**2)
        numbers = {level: number for number, level in enumerate(noise_levels(schedule))}
        self.numbers = [numbers[level] for level in self.times[:-1]]

    def sampled(self, name):
        family = samplers.find(name)
        learned = self.ddpm.config.learned_variance
        told = self.ddpm.velocity_and_variance if learned and family.draws_noise else self.ddpm.velocity
        predict = network if learned else lambda z, step: network(z, step)[:, : SHAPE[1]]
        noise = (lambda x, step: self.noise[step]) if family.draws_noise else None
        start = self.ddpm.prior(self.start)
        return integrate(build_sampler(family), partial(told, predict), start, self.times, noise=noise)

    def steps(self):
        """Each step: its number, the kept products now and after it, and the network's output on a given z."""
        for number, step in enumerate(self.numbers):
            yield number, self.kept[number], self.kept[number + 1], partial(network, step=torch.full(SHAPE[:1], step))


def data_of(z, noise, kept):
    return (z - (1 - kept).sqrt() * noise) / kept.sqrt()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("learned", [False, True])
def test_ddpm_is_ancestral_sampling_with_the_betas_of_the_steps_taken(schedule, learned):
    """Algorithm 2 of Ho et al. with the variance of eq. 15 and the betas of section 4 of Nichol and Dhariwal."""
    walk = Walk(schedule, 20, learned)
    z = walk.start
    for number, now, after, output in walk.steps():
        prediction, variance = output(z).chunk(2, dim=1)
        beta = 1 - now / after
        x = data_of(z, prediction, now)
        z = (after.sqrt() * beta * x + (1 - beta).sqrt() * (1 - after) * z) / (1 - now)
        if after < 1:
            smallest = ((1 - after) / (1 - now) * beta).log()
            share = (variance + 1) / 2 if learned else 0
            z = z + (share * beta.log() + (1 - share) * smallest).exp().sqrt() * walk.noise[number]
    torch.testing.assert_close(walk.sampled("ddpm"), z, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ddim_is_eq_12_of_song_et_al_without_noise(schedule):
    walk = Walk(schedule, 20)
    z = walk.start
    for _, now, after, output in walk.steps():
        prediction = output(z)[:, : SHAPE[1]]
        z = after.sqrt() * data_of(z, prediction, now) + (1 - after).sqrt() * prediction
    torch.testing.assert_close(walk.sampled("ddim"), z, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_dpm_solver_is_algorithm_2_of_lu_et_al(schedule):
    walk = Walk(schedule, 20)
    z, before = walk.start, None
    for _, now, after, output in walk.steps():
        x = data_of(z, output(z)[:, : SHAPE[1]], now)
        log_ratio = (now / (1 - now)).log() / 2  # lambda
        estimate = x
        if before is not None and after < 1:
            last, last_log_ratio = before
            step = (after / (1 - after)).log() / 2 - log_ratio
            r = (log_ratio - last_log_ratio) / step
            estimate = (1 + 1 / (2 * r)) * x - last / (2 * r)
        shrunk = ((1 - after) / (1 - now)).sqrt()
        gained = ((1 - after) / after * now / (1 - now)).sqrt() - 1  # exp(-h) - 1
        z = shrunk * z - after.sqrt() * gained * estimate
        before = x, log_ratio
    torch.testing.assert_close(walk.sampled("dpm_solver++"), z, rtol=1e-9, atol=1e-9)
