"""The selective scan step by step, slow and simple: the reference for every other formulation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def selective_scan_reference(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Compute `ops.scan.selective_scan` in the inputs' dtype (pass float64); differentiable any number of times."""
    # Step sizes.
    if delta_bias is not None:
        delta = delta + delta_bias
    if delta_softplus:
        delta = F.softplus(delta)

    # The recurrence h = exp(delta A) h + delta u B, y = C h, token by token.
    h_BDN = u.new_zeros(len(u), *A.shape)
    outputs = []
    steps = list(zip(u.unbind(1), delta.unbind(1), B.unbind(1), C.unbind(1), strict=True))
    for u_t, delta_t, B_t, C_t in reversed(steps) if reverse else steps:
        a_t = torch.exp(delta_t[:, :, None] * A)
        h_BDN = a_t * h_BDN + (delta_t * u_t)[:, :, None] * B_t[:, None, :]
        outputs.append((h_BDN * C_t[:, None, :]).sum(2))
    y = torch.stack(outputs[::-1] if reverse else outputs, dim=1)

    # The skip and the gate.
    if D is not None:
        y = y + D * u
    return y if z is None else y * F.silu(z)
