"""DINOv2 as a feature network, without torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tread_bench.core.describe.metrics import ExtractorFamily, ExtractorOptions, Published, weights_file

Resize = Literal["pillow", "torch"]


class DinoV2Options(ExtractorOptions):
    """DINOv2, whose class tokens FD-DINOv2 compares (Stein et al. 2023); from a local file of weights."""

    name: Literal["dinov2"] = "dinov2"
    weights: str | None = Field(
        None, description="weights of DINOv2 without registers, as released or as timm has them"
    )
    resize: Resize = Field(
        "pillow",
        exclude_if=lambda resize: resize == "pillow",
        description="to 224x224, bicubic with antialias: by Pillow in 8 bits, as dgm-eval, or by torch without "
        "rounding, as EDM2",
    )


DINOV2 = ExtractorFamily(
    name="dinov2",
    options=DinoV2Options,
    builder="tread_bench.measure.quality.networks.dinov2.extractor:build",
    has_logits=False,
    ships=False,
    files=weights_file,
    resizes=True,
    distance="FD-DINOv2",
    stored_as=("mu_dinov2", "sigma_dinov2"),  # EDM2's "fd_dinov2"
    stored_with={"resize": "torch"},
    published=(
        Published(
            file="dinov2_vitl14_pretrain.pth",
            where="DINOv2, pretrained backbone ViT-L/14 distilled, without registers, "
            "https://github.com/facebookresearch/dinov2",
        ),
        Published(
            file="vit_large_patch14_dinov2.lvd142m.safetensors",
            where="timm, model.safetensors of vit_large_patch14_dinov2.lvd142m, renamed",
        ),
    ),
)
