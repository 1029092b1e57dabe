"""Settings of captions, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from tread_bench.core.config.base import Model, one_of, or_text
from tread_bench.core.describe.data_sources import Place, TextEncoderOptions, text_encoders
from tread_bench.core.stored.data_paths import matches

CLASS = "{class}"  # in a template
METADATA = "metadata.jsonl"  # in a folder that a suite names: `file_name` and `text` on each line

if TYPE_CHECKING:
    Encoder = TextEncoderOptions
else:
    Encoder = one_of(text_encoders())


def _names_the_class(template: str | None) -> str | None:
    if template is not None and CLASS not in template:
        raise ValueError(f"{template!r}: must contain {CLASS}, in whose place the name of the class is written")
    return template


class Captions(Model):
    """What becomes of captions, which take the place of labels."""

    encoder: Encoder = Field(
        text_encoders.find("words").options(), description="text encoder, see `tread-bench list text_encoders`"
    )
    dtype: Literal["float32", "float16"] = Field("float32", description="of the stored features")


class ImageCaptions(Captions):
    """Captions in a column of a table, or made of the names of classes."""

    column: str = Field("text", description="that holds a caption or a list of captions; in metadata.jsonl, the key")
    template: Annotated[str | None, AfterValidator(_names_the_class)] = Field(
        None, description="a caption made of the name of a class, such as 'a photo of a {class}', in place of a column"
    )


class FolderCaptions(ImageCaptions):
    """Captions of image files: in COCO's files, or in metadata.jsonl."""

    files: tuple[str, ...] = Field(
        (),
        description="COCO's captions_*.json of all images; empty: metadata.jsonl in each folder that train and "
        "held_out name",
    )


if TYPE_CHECKING:
    CaptionsChoice = Captions
    ImageCaptionsChoice = ImageCaptions
    FolderCaptionsChoice = FolderCaptions
else:
    _ENCODERS = Literal[tuple(text_encoders())]  # a name alone stands for the settings with that encoder
    CaptionsChoice = Annotated[Captions, or_text(Captions, "encoder", _ENCODERS)]
    ImageCaptionsChoice = Annotated[ImageCaptions, or_text(ImageCaptions, "encoder", _ENCODERS)]
    FolderCaptionsChoice = Annotated[FolderCaptions, or_text(FolderCaptions, "encoder", _ENCODERS)]


def caption_files(captions: Captions | None) -> Iterator[tuple[Place, str]]:
    """Yield the files of captions, and those of their encoder, with their places in the options of a data source."""
    if captions is None:
        return
    for index, entry in enumerate(getattr(captions, "files", ())):
        yield from ((("captions", "files", index), path) for path in matches(entry))
    encoder = captions.encoder
    yield from ((("captions", "encoder", key), path) for key, path in encoder.family.files(encoder))
