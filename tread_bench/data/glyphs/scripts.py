"""The scripts that characters belong to."""

from __future__ import annotations

import unicodedata

# The ten that have most characters in these fonts; a label is a place in this list.
SCRIPTS = ("latin", "symbol", "greek", "cyrillic", "math", "canadian", "arrow", "arabic", "georgian", "armenian")
LANGUAGES = tuple(script for script in SCRIPTS if script not in ("symbol", "math", "arrow"))  # written with a capital


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
