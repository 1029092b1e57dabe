"""Guidance: how conditional and unconditional predictions are combined."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Network = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # (x_t, t, y) -> output


def classifier_free(
    network: Network, y: Tensor | None, num_classes: int, scale: float
) -> Callable[[Tensor, Tensor], Tensor]:
    """v = v_uncond + scale (v_cond - v_uncond) (Ho and Salimans 2022, eq. 6 in this form).

    Scale 1 is the conditional prediction and makes one call; any other scale one call of twice the batch.

    Raises:
        ValueError: guidance of a model without labels.
    """
    if scale == 1:
        return lambda x, t: network(x, t, y)
    if y is None:
        raise ValueError("classifier-free guidance needs labels; this model has none (num_classes=0): use scale 1")
    both = torch.cat([y, torch.full_like(y, num_classes)])

    def predict(x: Tensor, t: Tensor) -> Tensor:
        conditional, unconditional = network(torch.cat([x, x]), torch.cat([t, t]), both).chunk(2)
        return torch.lerp(unconditional, conditional, scale)

    return predict
