"""Lookup of text encoders by name, through entry points of the group `tread_bench.text_encoders`.

A text encoder is frozen and turns a caption into M tokens of width E, which networks are conditioned on. Its
`TextEncoderFamily` states what the rest of the package needs to know about it; nobody compares its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tread_bench.core.config.base import Model
from tread_bench.core.describe.plugins import Description, Kind


class TextEncoderOptions(Model):
    """A text encoder's settings in a suite. A subclass states its name: `name: Literal["mine"] = "mine"`.

    Each has `tokens`, to which every caption is padded or truncated, and their `width`, as fields or as properties.
    """

    name: str = ""

    if TYPE_CHECKING:

        @property
        def tokens(self) -> int: ...
        @property
        def width(self) -> int: ...

    @property
    def family(self) -> TextEncoderFamily:
        return find_text_encoder(self.name)


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


TEXT_ENCODERS = Kind("text encoder", "tread_bench.text_encoders", TextEncoderFamily, TextEncoderOptions, key="encoder")
text_encoders = TEXT_ENCODERS.all
find_text_encoder = TEXT_ENCODERS.find
