"""The objective itself: the network learns v = cos(a) noise - sin(a) x at the angle a = pi t / 2."""

import math
from dataclasses import dataclass

from trig_flow.family import TrigOptions


def factors(t):
    """cos(a) and sin(a) of each sample, (B, 1, 1, 1)."""
    angle = t.view(-1, 1, 1, 1) * (math.pi / 2)
    return angle.cos(), angle.sin()


@dataclass(frozen=True)
class Trig:
    options: TrigOptions

    validation_times = tuple((k + 0.5) / 8 for k in range(8))
    similarity_times = (0.1, 0.3, 0.5, 0.7, 0.9)

    def draw_times(self, samples):
        return samples.uniform("time")

    def corrupt(self, x, noise, t):
        cos, sin = factors(t)
        return cos * x + sin * noise

    def errors(self, predict, x, noise, t):
        cos, sin = factors(t)
        return (predict(self.corrupt(x, noise, t), t).float() - (cos * noise - sin * x)).square()

    def losses(self, predict, x, noise, t):
        return self.errors(predict, x, noise, t).flatten(1).mean(1)

    def velocity(self, predict, x_t, t):
        return (math.pi / 2) * predict(x_t, t).to(x_t.dtype)

    def clean(self, predict, x_t, t):
        cos, sin = factors(t)
        return cos * x_t - sin * predict(x_t, t).to(x_t.dtype)

    def sampling_times(self, steps):
        return [self.options.sampling_time(step, steps) for step in range(steps + 1)]

    def prior(self, noise):
        return noise
