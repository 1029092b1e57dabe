"""The script of a character, and what a caption says of it: its face, its style, and the name that Unicode gives it."""

from __future__ import annotations

import re
import unicodedata

# The ten that have most characters in these fonts; a label is a place in this list.
SCRIPTS = ("latin", "symbol", "greek", "cyrillic", "math", "canadian", "arrow", "arabic", "georgian", "armenian")
LANGUAGES = tuple(script for script in SCRIPTS if script not in ("symbol", "math", "arrow"))  # written with a capital

_FAMILIES = {
    "DejaVuSansMono": "DejaVu Sans Mono",
    "DejaVuSans": "DejaVu Sans",
    "DejaVuSerif": "DejaVu Serif",
    "STIXGeneral": "STIX",
}
_STYLES = {"Bol": "bold", "Obl": "oblique", "Ita": "italic"}  # beginnings of parts of a face's name


def script_of(character: str) -> str:
    """Return the script of a character, by its Unicode name: arrows, mathematics and symbols count as scripts; "": no
    name.
    """
    name, category = unicodedata.name(character, ""), unicodedata.category(character)
    first = name.partition(" ")[0].lower()
    if "ARROW" in name:
        return "arrow"
    if first == "mathematical" or category == "Sm":
        return "math"
    return "symbol" if category.startswith("S") and first != "braille" else first


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
