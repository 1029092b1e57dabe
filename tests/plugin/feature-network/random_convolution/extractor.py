"""The network itself."""

import hashlib

import torch
from torch import nn

from tread_bench import Extractor


class RandomConvolution(nn.Module):
    def __init__(self, width):
        super().__init__()
        weights = torch.randn(width, 3, 3, 3, generator=torch.Generator().manual_seed(0))
        self.weights = nn.Parameter(weights)

    def forward(self, pixels):
        return nn.functional.conv2d(pixels.float() / 255, self.weights).relu().mean((2, 3)), None


def build(options, shape):
    network = RandomConvolution(options.width)
    sha256 = hashlib.sha256(network.weights.detach().numpy().tobytes()).hexdigest()
    return Extractor(options.name, network, sha256, options.width)
