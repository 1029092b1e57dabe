"""Inception v3, as torch-fidelity has it, from a local file of its weights."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from torch import Tensor
from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

from tread_bench.core.errors import UserError
from tread_bench.measure.quality.features import Extractor
from tread_bench.measure.quality.networks.inception.family import INCEPTION, InceptionOptions
from tread_bench.measure.weights_file import named_where_wrong, read_weights

_DIMS = 2048
_SPATIAL_CHANNELS = 7
_SPATIAL_DIMS = 17 * 17 * _SPATIAL_CHANNELS  # 2,023


class Inception(FeatureExtractorInceptionV3):
    """uint8 (B, 3, H, W) -> pooled features (B, 2048), logits without bias (B, 1008) and, if requested, spatial
    features (B, 2023): what the evaluator of "Diffusion Models Beat GANs on Image Synthesis" (Dhariwal and Nichol 2021)
    calls `pool_3:0`, `softmax/logits/MatMul` and the first seven channels of `mixed_6/conv:0`.
    """

    def __init__(self, weights: io.BytesIO) -> None:
        super().__init__("inception", [str(_DIMS), "logits_unbiased"], weights)

    def forward(self, pixels: Tensor, spatial: bool = False) -> tuple[Tensor, ...]:
        pooled: Tensor
        logits: Tensor
        if not spatial:
            pooled, logits = super().forward(pixels)
            return pooled, logits
        seen: list[Tensor] = []  # after batch norm and ReLU
        with self.Mixed_6d.branch1x1.register_forward_hook(lambda module, inputs, output: seen.append(output)):
            pooled, logits = super().forward(pixels)
        maps = seen[0][:, :_SPATIAL_CHANNELS]  # (B, 7, 17, 17)
        return pooled, logits, maps.movedim(1, -1).flatten(1)  # in TensorFlow's order: rows, columns, channels


def build(options: InceptionOptions, shape: tuple[int, int]) -> Extractor:
    """Return the network with the weights that the options name. Raises UserError."""
    if options.weights is None:
        raise UserError(f"metrics.extractor {options.name} needs a local weights file: set metrics.inception_weights")
    return open_inception(options.weights)


def open_inception(path: str | Path) -> Extractor:
    """torch-fidelity's InceptionV3 (2048 features) from a local file of its weights, loaded as tensors only."""
    with named_where_wrong(
        path, "torch-fidelity's Inception", f"give {INCEPTION.published[0].file} of its release v0.2.0"
    ):
        weights = read_weights(path)
        buffer = io.BytesIO()  # torch-fidelity unpickles without restriction, so it only gets what is written here
        torch.save(weights.tensors, buffer)
        buffer.seek(0)
        network = Inception(buffer)
    return Extractor("inception", network, weights.sha256, _DIMS, _SPATIAL_DIMS)
