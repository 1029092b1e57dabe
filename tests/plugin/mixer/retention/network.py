"""S_t = f S_{t-1} + k_t v_t^T and y_t = S_t^T q_t, with the factor f = 1 - 2^-(5 + h) of head h."""

import torch
from torch import nn

from tread_bench import Mixer, linear_recurrence, recurrence_kernel


class Retention(Mixer):
    """Retention, without RetNet's rotation, norm and gate."""

    def __init__(self, size, kernels):
        super().__init__()
        self.heads = size.heads
        self.kernel = recurrence_kernel(kernels)
        self.qkv = nn.Linear(size.width, 3 * size.width, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)

    def forward(self, x_BLD, steps_BL=None):
        """Mix the tokens in their order; for those that were skipped before a token the state fades as well."""
        heads = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x_BLD).chunk(3, dim=2))
        q_BHLE, k_BHLE, v_BHLE = heads
        fading_H = torch.log1p(-(2.0 ** -(5 + torch.arange(self.heads, device=x_BLD.device))))
        g_BHL1 = fading_H[:, None, None].expand(*v_BHLE.shape[:3], 1)
        if steps_BL is not None:
            g_BHL1 = g_BHL1 * steps_BL[:, None, :, None]
        y_BHLE = linear_recurrence(q_BHLE * q_BHLE.shape[3] ** -0.5, k_BHLE, v_BHLE, g_BHL1, self.kernel)
        return self.out(y_BHLE.transpose(1, 2).flatten(2))
