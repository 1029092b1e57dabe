"""Lookup of data sources and of text encoders by name, through entry points of `tread_bench.data_sources` and
`.text_encoders`.

A data source has training samples and held-out samples. A text encoder is frozen and turns a caption into M tokens of
width E, which networks are conditioned on. A `DataFamily` and a `TextEncoderFamily` state what the rest of the package
needs to know about one; nobody compares its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tread_bench.core.config.base import Options
from tread_bench.core.describe.plugins import Description, Kind


class TextEncoderOptions(Options):
    """A text encoder's settings in a suite. A subclass states its name: `name: Literal["mine"] = "mine"`.

    Each has `tokens`, to which every caption is padded or truncated, and their `width`, as fields or as properties.
    """

    if TYPE_CHECKING:

        @property
        def tokens(self) -> int: ...
        @property
        def width(self) -> int: ...

    @property
    def family(self) -> TextEncoderFamily:
        return text_encoders.find(self.name)


@dataclass(frozen=True, kw_only=True)
class TextEncoderFamily(Description):
    """Torch-free description of a text encoder.

    Args:
        name: its name in a suite.
        options: its typed settings; the docstring's first line is what `tread-bench list text_encoders` shows.
        builder: "module:attribute" of a callable (options) -> `TextEncoder`.
        files: key of the options -> each file that the encoder reads. Features are stored under the hash of settings
            and files, so what is not among them must not change.
    """

    options: type[TextEncoderOptions]
    builder: str
    files: Callable[[Any], Iterable[tuple[str, str]]] = lambda options: ()


text_encoders = Kind("text encoder", "tread_bench.text_encoders", TextEncoderFamily, TextEncoderOptions, key="encoder")


Place = tuple[str | int, ...]  # keys and indices that lead to a value
VAE_FILES = ("config.json", "diffusion_pytorch_model.safetensors")  # as `save_pretrained` of diffusers writes them
_DECODED_CHANNELS = 3


class DataOptions(Options):
    """A data source's settings in a suite. A subclass states its source's name: `name: Literal["mine"] = "mine"`.

    Each has `image_size` (pixels on a side), `channels` and `num_classes` (0: no labels), as fields or as properties.
    """

    if TYPE_CHECKING:

        @property
        def image_size(self) -> int: ...
        @property
        def channels(self) -> int: ...
        @property
        def num_classes(self) -> int: ...

    @property
    def family(self) -> DataFamily:
        return data_sources.find(self.name)

    @property
    def text_encoder(self) -> TextEncoderOptions | None:
        """What encodes captions; None: there are none, or they are encoded already."""
        return None

    @property
    def text_shape(self) -> tuple[int, int] | None:
        """Tokens and width of a caption, which takes the place of a label; None: there are no captions."""
        encoder = self.text_encoder
        return None if encoder is None else (encoder.tokens, encoder.width)

    @property
    def picture_shape(self) -> tuple[int, int]:
        """Channels and side length of the images that generated samples become."""
        decoding = self.family.decoding(self)
        return (_DECODED_CHANNELS, decoding.image_size) if decoding else (self.channels, self.image_size)


Factor = float | tuple[float, ...] | str  # one number, one per channel, or the path of an array that fits (C, H, W)


@dataclass(frozen=True)
class Decoding:
    """How generated latents are decoded to images.

    Args:
        path: a folder of diffusers with an `AutoencoderKL` or `AutoencoderDC`; None: latents are enlarged, which is no
            decoder, but has its shapes.
        scale: the network learns scale * (latent - shift); the path of an array is that of a .npy file, or of a
            torch.save file of mean and standard deviation.
        image_size: S.
        shift: None: 0.
        pixels: range of the images that an autoencoder of diffusers decodes to.
    """

    path: str | None
    scale: Factor
    image_size: int
    shift: Factor | None = None
    pixels: tuple[float, float] = (-1.0, 1.0)

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that decoding reads."""
        decoder = () if self.path is None else decoder_files(self.path)
        return (*decoder, *(value for value in (self.scale, self.shift) if isinstance(value, str)))


def decoder_files(path: str) -> tuple[str, ...]:
    """Return the files of an autoencoder of diffusers: configuration and weights in its folder."""
    if not os.path.isdir(path):
        return (path,)
    return tuple(os.path.join(path, name) for name in VAE_FILES)


@dataclass(frozen=True, kw_only=True)
class DataFamily(Description):
    """Torch-free description of a data source.

    Args:
        name: its name in a suite.
        options: its typed settings; the docstring's first line is what `tread-bench list datasets` shows.
        builder: "module:attribute" of a callable options -> `DataSource`.
        files: (options, whether samples are generated) -> place in the options and path of each file that is read;
            the place of a file that no option names, such as a font, is (). A run notices when one of them changes. A
            folder of many files that is read as a whole is one path, with a separator at its end
            (`data_paths.folder_name`).
        not_comparable: options -> why generated samples cannot be compared with real images; empty if they can.
        extractor: the feature network that ships for such images, by its name in `tread-bench list extractors`; None:
            a suite names one.
        counts: options -> the numbers of training and held-out samples, by headers alone; None: a file is missing or
            unreadable, or they are not known.
        check_files: "module:attribute" of a callable (options, whether samples are generated) -> a message for each
            mistake that shows in headers, first and last samples, and labels; None: a cell that reads them finds it.
            It is also called where some of the files are missing, unless all are: each of these has been reported, and
            a message that names one is left out.
        check_all: the same for mistakes that show only where every sample is read, such as the sizes of images; a run
            calls it once, and again when a file has changed.
        decoding: options -> how generated samples become images; None: they are images.
        is_flipped: options -> whether half of the training images are mirrored left to right, drawn by sample index.
        has_pictures: options -> whether training samples are latents with their images beside them (`PicturedSplit`).
        has_published_fids: the FIDs in TREAD's tables were measured on such data.
        note: what a reader of its results must know; the page shows it.
    """

    options: type[DataOptions]
    builder: str
    files: Callable[[Any, bool], Iterable[tuple[Place, str]]]
    extractor: str | None
    not_comparable: Callable[[Any], str] = lambda options: ""
    counts: Callable[[Any], tuple[int, int] | None] = lambda options: None
    check_files: str | None = None
    check_all: str | None = None
    decoding: Callable[[Any], Decoding | None] = lambda options: None
    is_flipped: Callable[[Any], bool] = lambda options: False
    has_pictures: Callable[[Any], bool] = lambda options: False
    has_published_fids: bool = False
    note: str = ""


data_sources = Kind("data source", "tread_bench.data_sources", DataFamily, DataOptions, key="data")
