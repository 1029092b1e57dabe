"""Frozen networks whose features of the clean image REPA aligns tokens with, from local files only."""

from __future__ import annotations

import hashlib
import logging
from typing import Any, Self

import timm
import torch
import torch.nn.functional as F
from timm.data import resolve_model_data_config
from torch import Tensor, nn

from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import UserError
from tread_bench.core.names import unknown
from tread_bench.data.pretrained import full_float32
from tread_bench.measure.quality.networks.classifier.network import DIGITS_WEIGHTS, load_classifier
from tread_bench.measure.weights_file import named_where_wrong, read_weights
from tread_bench.model.backbone import Backbone
from tread_bench.model.losses.repa.family import RepaOptions
from tread_bench.model.losses.repa.network import Repa

log = logging.getLogger(__name__)


class TargetFeatures:
    """Images (B, C, H, W) in [-1, 1] to features (B, N, E) on a grid of tokens, without gradients, in float32.

    Copies share the network: it is not trained, averaged or kept.

    Args:
        network: images to maps (B, E, h, w), which are resized to the grid if they differ from it.
        width: E.
        sha256: of the weights file.
    """

    def __init__(self, network: nn.Module, width: int, sha256: str) -> None:
        self.network = network.eval().requires_grad_(False)
        self.width = width
        self.sha256 = sha256

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @torch.no_grad()
    def __call__(self, images: Tensor, grid: tuple[int, int]) -> Tensor:
        self.network.to(images.device)
        with full_float32(images.device):
            maps = self.network(images.to(next(self.network.parameters()).dtype))
            if maps.shape[2:] != grid:
                maps = F.interpolate(maps, grid, mode="bilinear", antialias=True)
        return maps.flatten(2).transpose(1, 2)


def build_repa(options: RepaOptions, cell: Cell, backbone: Backbone) -> Repa:
    """REPA with the features that the options name. Raises UserError."""
    return Repa(options, backbone, open_targets(options))


def open_targets(config: RepaOptions) -> TargetFeatures:
    """Return the feature network of digits before its mean over pixels, or a timm model with local weights.

    Raises:
        UserError: no such model, or a file that does not contain its weights.
    """
    if config.model is None or config.weights is None:
        classifier, _ = load_classifier(DIGITS_WEIGHTS)
        maps = classifier.body[:-2]  # without the mean over pixels and the flattening
        return TargetFeatures(maps, classifier.spec.widths[-1], hashlib.sha256(DIGITS_WEIGHTS.read_bytes()).hexdigest())
    if not timm.is_model(config.model):
        raise UserError(unknown("auxiliary repa.model", config.model, timm.list_models()))
    network = TimmMaps(config.model)
    with named_where_wrong(config.weights, config.model, "give its state_dict, or another auxiliary repa.model"):
        weights = read_weights(config.weights)
        own = network.model.state_dict().keys() & weights.tensors.keys()  # without those of a classifier's head
        network.model.load_state_dict({name: weights.tensors[name] for name in own})
    log.info("target features of REPA: %s, sha256 %s", config.model, weights.sha256)
    return TargetFeatures(network, network.width, weights.sha256)


class TimmMaps(nn.Module):
    """The last feature map of a timm model; images in [-1, 1], of one channel or three, are resized to its size."""

    mean: Tensor
    std: Tensor

    def __init__(self, name: str) -> None:
        super().__init__()
        self.model = timm.create_model(name, pretrained=False, num_classes=0)
        about = resolve_model_data_config(self.model)
        self.size = about["input_size"][1:]
        self.width: int = self.model.feature_info[-1]["num_chs"]
        for key in ("mean", "std"):
            self.register_buffer(key, torch.tensor(about[key]).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        x = images.expand(-1, 3, -1, -1) / 2 + 0.5
        x = F.interpolate(x, self.size, mode="bicubic", antialias=True)
        (maps,) = self.model.forward_intermediates(
            (x - self.mean) / self.std, indices=1, norm=True, output_fmt="NCHW", intermediates_only=True
        )
        return maps
