"""The loss itself."""

from tread_bench import Auxiliary


class EdgeLoss(Auxiliary):
    def __init__(self, options, cell, backbone):
        super().__init__()
        self.weight = options.weight

    def forward(self, prediction, images):
        errors = (images.denoised - images.clean).float()
        return self.weight * (errors.diff(dim=2).square().mean() + errors.diff(dim=3).square().mean())
