"""The interface of an objective: how data are corrupted, what the network's output means, how its error is weighted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from tread_bench.core.describe.objectives import ObjectiveOptions
from tread_bench.core.describe.plugins import named
from tread_bench.model.samples import Samples

Predict = Callable[[Tensor, Tensor], Tensor]  # (x_t, t) -> network output


class Objective(Protocol):
    """An objective. Times t are its own (flow time in [0, 1], or the noise level sigma).

    Where its options' `reads_variance` holds, the network's output has 2C channels, the first C of which are the
    prediction, else C.

    A subclass need not write `losses`, nor `clean` where x_t is the data and t times the velocity.
    """

    @property
    def validation_times(self) -> tuple[float, ...]:
        """The 8 times at which dense validation loss is measured."""
        ...

    @property
    def similarity_times(self) -> tuple[float, ...]:
        """The default times of the layer similarity."""
        ...

    def draw_times(self, samples: Samples) -> Tensor:
        """Draw the training times (B,) of the samples."""
        ...

    def corrupt(self, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return x_t (B, C, H, W) of data x and standard normal noise."""
        ...

    def errors(self, predict: Predict, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return the weighted squared error of each pixel (B, C, H, W), in float32."""
        ...

    def losses(self, predict: Predict, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """Return each sample's training loss (B,), over channels and pixels, in float32; also used for validation."""
        return self.errors(predict, x, noise, t).flatten(1).mean(1)

    def velocity(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        """Return dx/dt (B, C, H, W) of the probability flow at times t (B,), which a sampler integrates."""
        ...

    def velocity_and_variance(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        """Return dx/dt, and behind it what the network says of the variance: in -1 .. 1 from the posterior's to beta.

        (B, 2C, H, W). Needed only where the options' `reads_variance` holds.
        """
        raise NotImplementedError(f"{type(self).__name__} learns a variance and has no velocity_and_variance: write it")

    def clean(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        """Return the estimate (B, C, H, W) of the clean data that the network's output implies: here x_t - t dx/dt."""
        return x_t - t.view(-1, 1, 1, 1) * self.velocity(predict, x_t, t)

    def sampling_times(self, steps: int) -> list[float]:
        """Return `steps` + 1 times, from pure noise down to 0."""
        ...

    def prior(self, noise: Tensor) -> Tensor:
        """Return the start of sampling: standard normal noise (B, C, H, W) at the scale of the first time."""
        ...


def build_objective(options: ObjectiveOptions) -> Objective:
    """Build the objective that the options describe."""
    objective: Objective = named(options.family.builder)(options)
    return objective
