"""What a caption says of a character: its face, its style, and the name that Unicode gives it."""

from __future__ import annotations

import re
import unicodedata

from tread_bench.data.glyphs.scripts import LANGUAGES

_FAMILIES = {
    "DejaVuSansMono": "DejaVu Sans Mono",
    "DejaVuSans": "DejaVu Sans",
    "DejaVuSerif": "DejaVu Serif",
    "STIXGeneral": "STIX",
}
_STYLES = {"Bol": "bold", "Obl": "oblique", "Ita": "italic"}  # beginnings of parts of a face's name


def caption_of(face: str, code_point: int) -> str:
    """Return a caption such as "a bold Latin capital K in DejaVu Sans".

    Args:
        face: the name of a font's file, such as DejaVuSans-Bold.
    """
    family = next(family for family in _FAMILIES if face.startswith(family))
    parts = re.findall("[A-Z][a-z]+", face.removeprefix(family))
    styles = [_STYLES[part[:3]] for part in parts]
    words = [*styles, *_name(unicodedata.name(chr(code_point)))]
    article = "an" if words[0][0].lower() in "aeiou" else "a"
    return f"{article} {' '.join(words)} in {_FAMILIES[family]}"


def _name(name: str) -> list[str]:
    """LATIN CAPITAL LETTER K WITH HOOK -> Latin capital K with hook."""
    before, letter, after = name.partition(" LETTER ")
    first, *others = before.lower().split()
    words = [first.capitalize() if first in LANGUAGES else first, *others]
    if letter:
        character, *rest = after.split()
        is_capital = "capital" in words
        words.append(character if is_capital and len(character) == 1 else character.lower())
        words += [word.lower() for word in rest]
    return words
