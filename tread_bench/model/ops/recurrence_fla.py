"""The recurrences by the Triton kernels of flash-linear-attention, which need CUDA; formulas and shapes: `recurrence`.

The kernels take tokens before heads, multiply queries by a scale, which is 1 here, and keep states in float32.
"""

from __future__ import annotations

import torch
from fla.ops.gated_delta_rule import chunk_gated_delta_rule  # type: ignore[import-untyped]
from fla.ops.generalized_delta_rule import chunk_dplr_delta_rule  # type: ignore[import-untyped]
from fla.ops.gla import chunk_gla  # type: ignore[import-untyped]
from fla.ops.simple_gla import chunk_simple_gla  # type: ignore[import-untyped]
from torch import Tensor


def linear_fla(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
    """Compute `linear_recurrence`."""
    q, k = (x.expand(-1, v.shape[1], -1, -1) for x in (q, k))
    if g.shape[-1] == 1:
        return _as_given(chunk_simple_gla(*_narrow(v, q, k, v), _wide(g).squeeze(-1), scale=1.0)[0], v)
    return _as_given(chunk_gla(*_narrow(v, q, k, v), _wide(g), scale=1.0)[0], v)


def gated_delta_fla(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """Compute `gated_delta_rule`."""
    strength = _narrow(v, beta)[0].squeeze(-1)
    return _as_given(chunk_gated_delta_rule(*_narrow(v, q, k, v), _wide(g).squeeze(-1), strength, scale=1.0)[0], v)


def delta_fla(q: Tensor, k: Tensor, v: Tensor, g: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Compute `delta_recurrence`."""
    return _as_given(chunk_dplr_delta_rule(*_narrow(v, q, k, v, a, b), _wide(g.expand_as(k)), scale=1.0)[0], v)


def _narrow(v: Tensor, *inputs: Tensor) -> list[Tensor]:
    """(B, H, L, X) to (B, L, H, X), in the dtype of autocast where it is on, or else of v."""
    device = v.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else v.dtype
    return [x.transpose(1, 2).to(dtype).contiguous() for x in inputs]


def _wide(g: Tensor) -> Tensor:
    """Logarithms of decays, (B, L, H, X), in float32: their sums over a chunk are long."""
    return g.transpose(1, 2).float().contiguous()


def _as_given(y: Tensor, v: Tensor) -> Tensor:
    return y.transpose(1, 2).to(v.dtype)
