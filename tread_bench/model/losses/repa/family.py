"""Description of REPA, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from tread_bench.core.config.base import Float, Int
from tread_bench.core.describe.data_sources import data_sources
from tread_bench.core.describe.methods import LossFamily, LossOptions
from tread_bench.core.problems import Problem

if TYPE_CHECKING:
    from tread_bench.core.config.routed import Setting


IMAGE_CHANNELS = (1, 3)  # of images that a target network sees


class RepaOptions(LossOptions):
    """Aligns one block's tokens with features of the clean image (REPA)."""

    name: Literal["repa"] = "repa"
    weight: Float = Field(0.5, gt=0)
    block: Int | None = Field(
        None, ge=0, description="block whose tokens are aligned; empty: the 8th of 28, scaled to the depth"
    )
    projector: Int = Field(2048, ge=1, description="hidden width of the projection MLP")
    model: str | None = Field(None, description="timm model of the features; empty: the feature network of digits")
    weights: str | None = Field(None, description="weights of the model: a local safetensors or torch.save file")


def _check(setting: Setting, options: RepaOptions) -> Iterator[Problem]:
    # Rules of the block.
    last = setting.family.num_blocks(setting.spec) - 1
    if options.block is not None and options.block > last:
        yield Problem(f"auxiliary repa.block {options.block}: must lie in 0..{last}", ("block",))

    # Rules of the feature network.
    data = setting.cell.data
    if (options.model is None) != (options.weights is None):
        given, missing = ("weights", "model") if options.model is None else ("model", "weights")
        rule = f"auxiliary repa.{given} needs repa.{missing} too: a timm model and the local file of its weights"
        yield Problem(rule, (given,))
    elif options.model is None and data.family.extractor != data_sources.find("digits").extractor:
        way_out = "set repa.model (a timm model) and repa.weights (its local file)"
        yield Problem(f"auxiliary repa: the feature network of digits does not fit data {data.name}; {way_out}")
    elif data.channels not in IMAGE_CHANNELS and not data.family.has_pictures(data):
        rule = f"sees images of 1 or 3 channels, and data {data.name} has {data.channels} channels"
        way_out = "remove repa, or give the images beside latents (data.train_images)"
        yield Problem(f"auxiliary repa.model {options.model}: {rule}; {way_out}", ("model",))


def _files(options: RepaOptions) -> Iterator[tuple[str, str]]:
    if options.weights is not None:
        yield "weights", options.weights


REPA = LossFamily(
    name="repa",
    options=RepaOptions,
    builder="tread_bench.measure.targets:build_repa",
    reads_tokens=True,
    sees_images=True,
    check=_check,
    files=_files,
)
