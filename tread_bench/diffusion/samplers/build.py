"""Building a sampler."""

from __future__ import annotations

from tread_bench.core.describe.plugins import named
from tread_bench.core.describe.samplers import SamplerFamily
from tread_bench.diffusion.samplers.integrate import Step


def build_sampler(family: SamplerFamily) -> Step:
    """Build the step function for one batch of samples."""
    step: Step = named(family.builder)()
    return step
