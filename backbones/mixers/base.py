"""What mixers share. Shapes: B batch, L tokens in the order of the scan, D width, H heads, E channels of a head."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Shared = tuple[
    Tensor, Tensor
]  # values (B, L, D) of the first block that a token passed; 1 where there is one (B, L, 1)


class Mixer(nn.Module):
    """(B, L, D) to (B, L, D), along L."""

    def forward(self, x_BLD: Tensor, steps_BL: Tensor | None = None, shared: Shared | None = None) -> Tensor:
        """Mix the tokens.

        Args:
            steps_BL: powers to which the decays before each token are raised; None: 1 everywhere.
            shared: for a mixer that shares values, which also has `values`.
        """
        raise NotImplementedError

    def init_part(self, name: str, part: nn.Module) -> None:
        """Draw the parameters that `part` itself owns, by its name within the mixer: Xavier with gain 2^-2.5."""
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight, gain=2**-2.5)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif hasattr(part, "reset_parameters"):
            part.reset_parameters()


class GatedNorm(nn.RMSNorm):
    """RMSNorm of each head, times silu of a gate."""

    def forward(self, y_BLHE: Tensor, gate_BLHE: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(y_BLHE.to(self.weight.dtype)) * F.silu(gate_BLHE)


def split_heads(x_BLD: Tensor, heads: int) -> Tensor:
    """(B, L, D) to (B, H, L, E)."""
    return x_BLD.unflatten(2, (heads, -1)).transpose(1, 2)


def wide(x: Tensor) -> Tensor:
    """Return x in float32 or wider, also under autocast."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def raised(g_BHLE: Tensor, steps_BL: Tensor | None) -> Tensor:
    """Return the logarithms of decays, raised to the power of `steps_BL`."""
    return g_BHLE if steps_BL is None else g_BHLE * steps_BL[:, None, :, None]
