"""What latents are, as far as their files do not show it: `manifest.json` beside them.

A network learns x = (z - shift) * scale, where z is a latent as the encoder's posterior gives it. Without the facts
stated here, moments pass for samples, and a scale is applied twice or not at all.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from tread_bench.core.config.base import Float, Int, Model, is_unused, no_boolean
from tread_bench.core.errors import UserError
from tread_bench.core.problems import shortened, validation_problems
from tread_bench.core.stored.data_paths import named_where_unreadable
from tread_bench.core.stored.foreign import read_file

MANIFEST = "manifest.json"
LOGVAR_RANGE = (-30.0, 20.0)  # to which diffusers and every published reader clamp a log-variance
_MOST_BYTES = 2**26
_WILDCARDS = frozenset("*?[")

Quantity = Literal["sample", "mean_std", "mean_logvar"]
Flips = Literal["none", "pair", "appended"]


def _finite(value: Any) -> Any:
    """A number, or one for each channel; anything else is left to pydantic."""
    if isinstance(value, list | tuple) and not value:
        raise ValueError("must have one number for each channel")
    for number in _each(value):
        no_boolean(number)
        if isinstance(number, int | float) and not abs(number) <= sys.float_info.max:
            raise ValueError(f"{shortened(number)}: must be a finite number")
    return value


def _positive(value: Any) -> Any:
    """Numbers that divide as well."""
    for number in _each(value):
        if isinstance(number, int | float) and not number > 0:
            raise ValueError(f"{number!r}: must be positive and finite")
    return value


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


Range = tuple[Float, Float]
Shift = Annotated[float | tuple[float, ...] | str | None, BeforeValidator(_finite)]
Scale = Annotated[float | tuple[float, ...] | str, BeforeValidator(_positive), BeforeValidator(_finite)]


class StoredCaptions(Model):
    """The features of captions that are stored beside latents, several for each."""

    tokens: Int = Field(77, ge=1, description="of a caption")
    width: Int = Field(768, ge=1, description="of a token")


class LatentManifest(Model):
    """The facts of one folder of latents.

    Paths of arrays, (C, 1, 1) or (C, H, W), are relative to the manifest.
    """

    version: Literal[1] = 1
    quantity: Quantity = Field(
        description="a draw from the posterior, or its mean and standard deviation or log-variance"
    )
    encoder_input: Range = Field(description="range of the pixels that were encoded")
    already_scaled: bool = Field(description="stored latents are shifted and scaled")
    scale: Scale = Field(description="a number, one per channel, or the path of an array")
    shift: Shift = Field(None, description="subtracted before scaling, in the same forms")
    flips: Flips = Field("none", description="mirrored latents: none, one of each pair drawn, or further samples")
    shape: tuple[Int, Int, Int] = Field(description="(C, H, W) of a latent, also where moments are stored")
    count: Int = Field(ge=1, description="samples")
    num_classes: Int = Field(ge=0)
    files: dict[str, str] = Field(default_factory=dict, description="name -> SHA-256 of its content")
    encoder: str = Field("", description="what encoded the images")
    captions: StoredCaptions | None = Field(
        None, exclude_if=is_unused, description="the features of captions that are stored, too"
    )
    text_encoder: str = Field("", exclude_if=is_unused, description="what encoded the captions")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if rule := inconsistent(self.quantity, self.already_scaled, self.scale, self.shift, self.shape[0]):
            raise ValueError(rule)
        return self


def inconsistent(quantity: str, already_scaled: bool, scale: Scale, shift: Shift, channels: int) -> str:
    """Return the rule that these facts break together; empty if none."""
    if already_scaled and quantity != "sample":
        return f"already_scaled with quantity {quantity}: moments are scaled when they are drawn; set it to false"
    for name, value in (("scale", scale), ("shift", shift)):
        if isinstance(value, tuple) and len(value) != channels:
            return f"{name} has {len(value)} numbers for {channels} channels; give one for each, or a single number"
    return ""


def manifest_path(entry: str) -> Path:
    """Return where the manifest of a file, a folder or a glob is: in the folder, or beside the files.

    What is not there is a folder if its name has no suffix.
    """
    path = Path(entry)
    is_name = not _WILDCARDS & set(path.name)
    if path.is_dir() or (is_name and not path.suffix and not path.exists()):
        return path / MANIFEST
    parent = path.parent
    while _WILDCARDS & set(str(parent)):
        parent = parent.parent
    return parent / MANIFEST


def read_manifest(path: Path) -> LatentManifest:
    """Read and validate a manifest; paths in it become absolute. Raises UserError with all mistakes."""
    try:
        with named_where_unreadable(str(path)):
            values = json.loads(read_file(path, _MOST_BYTES))
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error}); write it again") from None

    # Its paths start at its folder.
    if isinstance(values, dict):
        for key in ("scale", "shift"):
            if isinstance(values.get(key), str):
                values[key] = str(path.parent / values[key])
    try:
        return LatentManifest.model_validate(values)
    except ValidationError as error:
        problems = validation_problems(error, LatentManifest)
        raise UserError("\n".join(f"{path}: {problem.message}" for problem in problems)) from None


def manifests_of(entries: Sequence[str]) -> list[Path]:
    """Return the manifests that exist beside these files, folders and globs, each once."""
    paths = dict.fromkeys(manifest_path(entry) for entry in entries)
    return [path for path in paths if path.is_file()]
