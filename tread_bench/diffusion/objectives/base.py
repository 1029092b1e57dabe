"""An objective: how data are corrupted, what the network's output means, and how its error is weighed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

Predict = Callable[[Tensor, Tensor], Tensor]  # (x_t, t) -> network output


class Objective(Protocol):
    """Times t are the objective's own (flow time in [0, 1], or the noise level sigma)."""

    @property
    def validation_times(self) -> tuple[float, ...]:
        """The 8 at which dense validation loss is measured."""
        ...

    @property
    def similarity_times(self) -> tuple[float, ...]:
        """Those of the layer similarity, where a suite names none."""
        ...

    def draw_times(self, seed: int, first: int, count: int) -> Tensor:
        """Training times (B,) of the samples `first` ..."""
        ...

    def corrupt(self, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """x_t (B, C, H, W) of data x and standard normal noise."""
        ...

    def errors(self, predict: Predict, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """The weighted squared error of each pixel (B, C, H, W), in float32."""
        ...

    def losses(self, predict: Predict, x: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """The training loss of each sample (B,), over channels and pixels, in float32; validated by the same."""
        ...

    def velocity(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        """dx/dt (B, C, H, W) of the probability flow at times t (B,): what a sampler integrates."""
        ...

    def clean(self, predict: Predict, x_t: Tensor, t: Tensor) -> Tensor:
        """The estimate (B, C, H, W) of the data behind x_t that the network's output stands for."""
        ...

    def sampling_times(self, steps: int) -> list[float]:
        """`steps` + 1 times, from pure noise down to 0."""
        ...

    def prior(self, noise: Tensor) -> Tensor:
        """Where sampling starts: standard normal noise (B, C, H, W) at the scale of the first time."""
        ...
