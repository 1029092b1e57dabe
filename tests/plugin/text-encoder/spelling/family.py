"""What is known of the encoder without torch."""

from typing import Literal

from pydantic import Field

from tread_bench import TextEncoderFamily, TextEncoderOptions


class SpellingOptions(TextEncoderOptions):
    """A token for each character, with a one in the place of its code point."""

    name: Literal["spelling"] = "spelling"
    tokens: int = Field(24, ge=1, description="characters of a caption")
    width: int = Field(32, ge=1, description="places; code points count modulo this")


SPELLING = TextEncoderFamily(name="spelling", options=SpellingOptions, builder="spelling.encoder:Spelling")
