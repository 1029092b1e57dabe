"""What is known of the sampler without torch."""

from tread_bench import SamplerFamily

TWO_STEP = SamplerFamily(
    name="two_step",
    about="Adams-Bashforth of two steps: as exact as Heun, for the calls of Euler.",
    builder="two_step.steps:TwoStep",
    call_times=lambda now, after: (now,),
    order=2,
    takes_churn=False,
)
