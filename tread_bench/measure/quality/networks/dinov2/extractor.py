"""DINOv2 from a local file of its weights: images as in dgm-eval or EDM2, positions interpolated as released."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import timm
import torch
import torch.nn.functional as F
from PIL import Image
from timm.models.vision_transformer import checkpoint_filter_fn
from torch import Tensor, nn

from tread_bench.core.errors import UserError
from tread_bench.measure.quality.features import Extractor
from tread_bench.measure.quality.networks.dinov2.family import DINOV2, DinoV2Options, Resize
from tread_bench.measure.weights_file import named_where_wrong, read_weights

SIDE, PATCH = 224, 14  # pixels
_MODELS = {  # by width
    384: "vit_small_patch14_dinov2",
    768: "vit_base_patch14_dinov2",
    1024: "vit_large_patch14_dinov2",
    1536: "vit_giant_patch14_dinov2",
}
_PROTOCOL = "vit_large_patch14_dinov2"  # which FD-DINOv2 is defined with
_OFFSET = 0.1  # patches that the released code adds to the grid before it interpolates positions
_RESIZED = {
    "pillow": "uint8, Pillow bicubic to 224x224",
    "torch": "float32, torch bicubic with antialias to 224x224",
}
_IDENTITY = (  # all that features depend on besides the tensors
    "{resized}, / 255, ImageNet mean and deviation; "
    "positions bicubic without antialias by (16 + 0.1) / side; class token after the last norm"
)


class DinoV2(nn.Module):
    """uint8 (B, 3, H, W) -> class tokens after the last norm (B, width), and no logits.

    Images are resized to 224x224 and standardised by ImageNet's mean and deviation, as in dgm-eval (Stein et al. 2023,
    "Exposing flaws of generative model evaluation") and in EDM2 (Karras et al. 2024, calculate_metrics.py).
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, resize: Resize) -> None:
        super().__init__()
        self.model = model
        self.resize = resize
        self.register_buffer("mean", torch.tensor((0.485, 0.456, 0.406)).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor((0.229, 0.224, 0.225)).view(1, 3, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> tuple[Tensor, None]:
        images = resized(pixels, self.resize).to(self.mean.device).float() / 255
        return self.model((images - self.mean) / self.std), None


def resized(pixels: Tensor, resize: Resize) -> Tensor:
    """Images, uint8 (B, 3, H, W), at 224x224 by an antialiased bicubic filter.

    Pillow's gives uint8, on the CPU: dgm-eval's, and EDM2's mode "pil". Torch's gives float32, neither rounded nor
    clipped: EDM2's default. They differ by up to nine levels.
    """
    if resize == "torch":
        return F.interpolate(pixels.float(), size=(SIDE, SIDE), mode="bicubic", antialias=True)
    images = pixels.permute(0, 2, 3, 1).cpu().contiguous().numpy()
    small = [np.asarray(Image.fromarray(one).resize((SIDE, SIDE), Image.Resampling.BICUBIC)) for one in images]
    return torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2)


def build(options: DinoV2Options, shape: tuple[int, int]) -> Extractor:
    """Return the network with the weights that the options name. Raises UserError."""
    if options.weights is None:
        key = f"metrics.extractor: {{name: {options.name}, weights: FILE}}"
        raise UserError(f"metrics.extractor {options.name} needs a local weights file: set {key}")
    return open_dinov2(options.weights, options.resize)


def open_dinov2(path: str | Path, resize: Resize = "pillow") -> Extractor:
    """DINOv2 of the size that the file's tensors have, loaded as tensors only. Raises UserError."""
    files = " or ".join(f"{one.file} ({one.where})" for one in DINOV2.published)
    with named_where_wrong(path, "DINOv2", f"give {files}"):
        weights = read_weights(path)
        model_name = _model_of(weights.tensors)
        model = timm.create_model(model_name, pretrained=False, num_classes=0, img_size=SIDE, weight_init="skip")
        own = {**weights.tensors, "pos_embed": interpolated(weights.tensors["pos_embed"], SIDE // PATCH)}
        renamed = checkpoint_filter_fn(own, model)  # names of the release to timm's; drops the token of masked patches
        model.load_state_dict({key: tensor.float() for key, tensor in renamed.items()}, assign=True)
    name = DINOV2.name if model_name == _PROTOCOL else model_name
    identity = json.dumps([weights.sha256, _IDENTITY.format(resized=_RESIZED[resize])])
    dims = weights.tensors["cls_token"].shape[-1]
    return Extractor(name, DinoV2(model, resize), hashlib.sha256(identity.encode()).hexdigest(), dims)


def _model_of(tensors: Mapping[str, Tensor]) -> str:
    """The timm model whose tensors these are. Raises ValueError."""
    token, table = tensors.get("cls_token"), tensors.get("pos_embed")
    if token is None or table is None or token.ndim != 3 or table.ndim != 3:
        raise ValueError("it has no class token or table of positions")
    if "register_tokens" in tensors or "reg_token" in tensors:
        raise ValueError("it has registers, and FD-DINOv2 is defined without")
    width = token.shape[-1]
    if width not in _MODELS or token.shape != (1, 1, width) or table.shape[-1] != width:
        raise ValueError(f"its class token has shape {tuple(token.shape)}, none of DINOv2's")
    return _MODELS[width]


def interpolated(table: Tensor, grid: int) -> Tensor:
    """Return a table of positions (1, 1 + side², d) for a grid of patches: (1, 1 + grid², d), with the class token's
    first.

    As DINOv2's released code interpolates (`interpolate_pos_encoding`): bicubic, without antialiasing, by the factor
    (grid + 0.1) / side. timm's own differs: it antialiases, and has no offset. Raises ValueError.
    """
    side = math.isqrt(table.shape[1] - 1)
    if side == 0 or side**2 != table.shape[1] - 1:
        raise ValueError(f"its table of {table.shape[1]} positions is not a square and a class token")
    if side == grid:
        return table
    patches = table[:, 1:].float().view(1, side, side, -1).permute(0, 3, 1, 2)
    factor = (grid + _OFFSET) / side
    smaller = F.interpolate(patches, scale_factor=(factor, factor), mode="bicubic")
    return torch.cat((table[:, :1].float(), smaller.permute(0, 2, 3, 1).flatten(1, 2)), 1)
