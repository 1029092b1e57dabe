"""The samplers of this package, without torch."""

from __future__ import annotations

from tread_bench.core.describe.objectives import SamplerFamily

EULER = SamplerFamily(
    name="euler",
    about="Euler's method: one call per step.",
    builder="tread_bench.diffusion.samplers.euler:Euler",
    call_times=lambda now, after: (now,),
    order=1,
    takes_churn=True,
)
HEUN = SamplerFamily(
    name="heun",
    about="Heun's method as in EDM: two calls per step, one in the last (Karras et al. 2022, Algorithm 1).",
    builder="tread_bench.diffusion.samplers.heun:Heun",
    call_times=lambda now, after: (now, after) if after else (now,),
    order=2,
    takes_churn=True,
)
DDPM = SamplerFamily(
    name="ddpm",
    about="DDPM's ancestral sampling: one call per step, then noise, of a learned variance if any (Ho et al. 2020).",
    builder="tread_bench.diffusion.samplers.ddpm:Ddpm",
    call_times=lambda now, after: (now,),
    order=1,
    takes_churn=False,
    needs_noise_levels=True,
    draws_noise=True,
)
DDIM = SamplerFamily(
    name="ddim",
    about="DDIM without noise, which over noise levels is Euler's method: one call per step (Song et al. 2021).",
    builder="tread_bench.diffusion.samplers.euler:Euler",
    call_times=lambda now, after: (now,),
    order=1,
    takes_churn=True,
    needs_noise_levels=True,
)
DPM_SOLVER = SamplerFamily(
    name="dpm_solver++",
    about="DPM-Solver++ of second order, multistep: one call per step (Lu et al. 2022, Algorithm 2).",
    builder="tread_bench.diffusion.samplers.dpm_solver:DpmSolver",
    call_times=lambda now, after: (now,),
    order=2,
    takes_churn=False,
    needs_noise_levels=True,
)
