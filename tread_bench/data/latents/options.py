"""Options of latents on disk, in any of several layouts, without torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from tread_bench.core.config.base import Int, is_unused
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.errors import UserError
from tread_bench.core.names import unknown
from tread_bench.core.stored.data_paths import all_matches, expanded, folder_name, is_missing
from tread_bench.data.latents.layouts import LAYOUTS, SD_VAE_SCALE, Layout
from tread_bench.data.latents.manifest import (
    Flips,
    LatentManifest,
    Quantity,
    Range,
    Scale,
    Shift,
    StoredCaptions,
    inconsistent,
    manifests_of,
    read_manifest,
)
from tread_bench.data.latents.trees import ARCHIVE
from tread_bench.data.parquet.family import SUFFIXES

_OWN = "safetensors"
_FACTS = ("quantity", "encoder_input", "already_scaled", "scale", "shift", "flips")
_ENCODER_INPUT = (-1.0, 1.0)


def _is(default: object) -> Callable[[object], bool]:
    """Return the test whether a key is left out where a cell is written, as `is_unused`."""
    return lambda value: value == default


def _known_layout(name: str) -> str:
    if name not in LAYOUTS:
        rule = f"files of another are converted once by the lines of docs/methods/latents.md, then layout: {_OWN}"
        raise ValueError(f"{unknown('layout', name, LAYOUTS)}; {rule}")
    return name


class LatentsData(DataOptions):
    """Latents of an autoencoder in local files, in one of several layouts; its decoder makes images of samples."""

    name: Literal["latents"] = "latents"
    layout: Annotated[str, AfterValidator(_known_layout)] = Field(
        _OWN, exclude_if=_is(_OWN), json_schema_extra={"enum": list(LAYOUTS)}, description="how they are stored"
    )
    train: tuple[str, ...] = Field(min_length=1, description="files, folders or globs, as the layout has them")
    held_out: tuple[str, ...] = Field(min_length=1, description="the same, held out")
    image_size: Int = Field(32, ge=1, description="side in latent pixels")
    channels: Int = Field(4, ge=1, description="of a latent, also where moments are stored")
    num_classes: Int = Field(1000, ge=0)
    quantity: Quantity = Field(
        "sample", exclude_if=_is("sample"), description="what is stored: samples of the posterior, or its moments"
    )
    encoder_input: Range = Field(
        _ENCODER_INPUT, exclude_if=_is(_ENCODER_INPUT), description="range of the pixels that were encoded"
    )
    already_scaled: bool = Field(False, exclude_if=is_unused, description="stored latents are shifted and scaled")
    scale: Scale = Field(
        SD_VAE_SCALE,
        description="a network learns scale * (latent - shift): a number, one per channel, or the path of an array; "
        f"SD-VAE's is {SD_VAE_SCALE}",
    )
    shift: Shift = Field(None, exclude_if=is_unused, description="in the same forms; empty: 0")
    flips: Flips = Field(
        "none", exclude_if=_is("none"), description="mirrored latents: none, one of each pair drawn, or further samples"
    )
    captions: StoredCaptions | None = Field(
        None, exclude_if=is_unused, description="features of captions that are stored, in place of labels"
    )
    train_images: str | None = Field(
        None, exclude_if=is_unused, description="folder with the image of each training latent, for losses that see it"
    )
    decoder: str | None = Field(
        None,
        description="folder with the autoencoder of diffusers that encoded them, for FID and pictures",
    )
    images: tuple[str, ...] = Field(
        (), description="Parquet files, or folders of image files, with the real images that FID is measured against"
    )
    image_column: str = "image"
    decoded_size: Int = Field(256, ge=1, description="side in pixels of the decoder's images and of the real ones")

    @model_validator(mode="before")
    @classmethod
    def _as_stored(cls, value: Any) -> Any:
        """Fill in what the suite leaves out: as the manifest says, else as the layout usually has it."""
        if not isinstance(value, dict):
            return value
        name, train = value.get("layout", _OWN), value.get("train")
        layout = LAYOUTS.get(name) if isinstance(name, str) else None
        if layout is None or not isinstance(train, list | tuple) or not train:
            return value  # an error of its field
        if not all(isinstance(entry, str) for entry in train):
            return value
        return {**layout.usual_in(train), **layout.fixed, **_in_manifest(train), **value}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        found = [
            f"{key} {getattr(self, key)!r}: layout {self.layout} has {fixed!r}; leave the key out"
            for key, fixed in self.about.fixed.items()
            if getattr(self, key) != fixed
        ]
        if rule := inconsistent(self.quantity, self.already_scaled, self.scale, self.shift, self.channels):
            found.append(rule)
        if self.train_images is not None and not self.about.is_named:
            named = ", ".join(layout.name for layout in LAYOUTS.values() if layout.is_named)
            found.append(
                f"train_images: samples of layout {self.layout} have no names by which an image is found; those of "
                f"{named} have"
            )
        if self.captions is not None and not self.about.has_captions:
            named = ", ".join(layout.name for layout in LAYOUTS.values() if layout.has_captions)
            found.append(f"captions: layout {self.layout} stores none; {named} do")
        if self.captions is not None and self.num_classes:
            found.append(f"num_classes {self.num_classes}: captions take the place of labels; set num_classes: 0")
        if found:
            raise ValueError("; ".join(found))
        return self

    @property
    def text_shape(self) -> tuple[int, int] | None:
        return None if self.captions is None else (self.captions.tokens, self.captions.width)

    @property
    def about(self) -> Layout:
        """What is known of the layout."""
        return LAYOUTS[self.layout]

    @property
    def has_moments(self) -> bool:
        """Whether a mean and a spread are stored, from which samples are drawn."""
        return self.quantity != "sample"

    @property
    def stored_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of what is stored of a sample; 2C channels of moments."""
        return self.channels * (2 if self.has_moments else 1), self.image_size, self.image_size


def _in_manifest(entries: Sequence[str]) -> dict[str, Any]:
    """The facts and sizes in the first manifest beside training files; none where it cannot be used, said later."""
    for path in manifests_of(entries)[:1]:
        with suppress(UserError):
            return facts_of(read_manifest(path))
    return {}


def facts_of(manifest: LatentManifest) -> dict[str, Any]:
    """Return what a manifest says, by the keys of a suite."""
    channels, side, _ = manifest.shape
    facts = {key: getattr(manifest, key) for key in _FACTS}
    captions = {} if manifest.captions is None else {"captions": manifest.captions}
    return {**facts, "channels": channels, "image_size": side, "num_classes": manifest.num_classes, **captions}


def units(options: LatentsData, entries: tuple[str, ...]) -> list[str]:
    """Return the files that entries name, or the folders of a layout that reads a folder as a whole."""
    if not options.about.suffixes:
        return [path if path.endswith(ARCHIVE) else folder_name(path) for path in all_matches(entries)]
    return expanded(entries, options.about.suffixes)


def empty_text_file(options: LatentsData) -> str | None:
    """Return the file with the features of the empty caption; None: there is none of its own."""
    name = options.about.empty_text_beside
    if not name or options.captions is None:
        return None
    return os.path.join(os.path.dirname(os.path.normpath(options.train[0])), name)


def holds_image_files(entry: str) -> bool:
    """Return whether an entry of `images` is a folder without Parquet files."""
    return os.path.isdir(entry) and is_missing(expanded([entry], SUFFIXES)[0])
