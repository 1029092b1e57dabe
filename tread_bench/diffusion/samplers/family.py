"""The samplers of this package, without torch."""

from __future__ import annotations

from tread_bench.core.describe.samplers import SamplerFamily

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
