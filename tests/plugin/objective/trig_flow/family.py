"""What is known of the objective without torch."""

from typing import Literal

from tread_bench import ObjectiveFamily, ObjectiveOptions


class TrigOptions(ObjectiveOptions):
    """Flow matching on a circular path: x_t = cos(pi t / 2) x + sin(pi t / 2) noise."""

    name: Literal["trig"] = "trig"

    @property
    def time_range(self):
        return 0.0, 1.0

    def sampling_time(self, step, steps):
        return (steps - step) / steps


TRIG = ObjectiveFamily(
    name="trig",
    options=TrigOptions,
    builder="trig_flow.objective:Trig",
    has_noise_levels=False,
)
