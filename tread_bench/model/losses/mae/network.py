"""MaskDiT's loss on bypassed tokens (Zheng et al., arXiv 2306.09305, eq. 5), over all routes.

L = weight * sum_r w_r * mean over samples and bypassed tokens i of route r of |D_i - n(x_t)_i|^2 / (P^2 C)

D is the denoised image, x_t the noised one, i a patch of P x P pixels and C channels, and n subtracts each patch's mean
and divides by its standard deviation (unbiased, with 1e-6 added to the variance), as released.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tread_bench.core.config.suite import Cell
from tread_bench.model.backbone import Backbone
from tread_bench.model.losses.mae.family import MaeOptions
from tread_bench.model.methods.base import Auxiliary, Images, Prediction

EPSILON = 1e-6


class Mae(Auxiliary):
    """Bypassed tokens predict their own noised pixels, normalised per patch.

    Args:
        route_weights: w_r for each route.
        patch: side length P of a patch in pixels.
    """

    def __init__(self, weight: float, route_weights: Sequence[float], patch: int) -> None:
        super().__init__()
        self.weight = weight
        self.route_weights = tuple(route_weights)
        self.patch = patch

    def forward(self, prediction: Prediction, images: Images) -> Tensor:
        target = patches(images.noised, self.patch)
        estimate = patches(images.denoised.to(images.noised.dtype), self.patch)
        variance, mean = torch.var_mean(target, dim=2, keepdim=True)
        errors_BN = (estimate - (target - mean) / (variance + EPSILON).sqrt()).square().mean(2)
        loss = errors_BN.new_zeros(())
        for number, kept in prediction.kept.items():
            left_out = torch.ones_like(errors_BN).scatter(1, kept, 0.0)
            loss = loss + self.route_weights[number] * (errors_BN * left_out).sum() / left_out.sum()
        return self.weight * loss


def build(options: MaeOptions, cell: Cell, backbone: Backbone) -> Mae:
    """Build the loss over the cell's routes."""
    routes = len(cell.routes)
    return Mae(options.weight, options.route_weights or [1 / routes] * routes, backbone.spec.patch)


def patches(images: Tensor, patch: int) -> Tensor:
    """Split images (B, C, H, W) into patches (B, N, C P^2), row by row."""
    return F.unfold(images, patch, stride=patch).transpose(1, 2)
