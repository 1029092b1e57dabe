"""How pictures look: colours in light and dark, and the settings of Matplotlib."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import matplotlib as mpl

INK, MUTED, RULE, SURFACE = "#1b1f24", "#59636e", "#d6dbe1", "#ffffff"
BETTER, WORSE = "#0072b2", "#d55e00"

# Of lines: told apart by eyes that do not see all colours, and on white; the page has a lighter twin of each on black.
COLOURS = (
    BETTER, WORSE, "#007f5c", "#b0508c", "#8a6d00", "#2f8fce", "#7a4fbf", "#8c564b", "#0f9aa8", "#6b7a00", "#c0392b",
    "#4a5f8a",
)  # fmt: skip
MARKERS = ("s", "^", "D", "v", "P", "X", "p")
DASHES = ("-", "--", ":")
PATTERNS: dict[str, str | tuple[float, float]] = {"-": "", "--": (3.7, 1.6), ":": (1, 1.65)}  # the same, for seaborn
VARIABLES = {
    INK: "var(--ink)", MUTED: "var(--muted)", RULE: "var(--rule)", SURFACE: "var(--surface)",
    **{colour: f"var(--line-{place})" for place, colour in enumerate(COLOURS)},
}  # fmt: skip
Look = tuple[str, str, str]  # colour, marker, dashes

_SETTINGS = {
    "axes.axisbelow": True,
    "axes.edgecolor": RULE,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": MUTED,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titley": 1.0,  # where it is put anyway; else every panel is laid out to find a place for its title
    "figure.facecolor": SURFACE,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "pdf.fonttype": 42,  # TrueType: journals refuse Type 3
    "savefig.dpi": 160,
    "svg.fonttype": "none",
    "svg.hashsalt": "tread-bench",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": RULE,
    "xtick.labelcolor": MUTED,
    "xtick.major.size": 0,
    "ytick.color": RULE,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0,
}


@contextmanager
def theme() -> Iterator[None]:
    """Settings for drawing and for saving. A glyph that the font lacks is drawn as a box, not warned about."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # not those of the user
        mpl.rcParams.update(_SETTINGS)
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def looks(is_dense: Iterable[bool]) -> list[Look]:
    """Return the look of every line: dense a circle in the colour of the text; the others differ in colour, and after
    twelve lines in dashes.
    """
    found: list[Look] = []
    place = 0
    for dense in is_dense:
        if dense:
            found.append((INK, "o", "-"))
            continue
        dashes = DASHES[place // len(COLOURS) % len(DASHES)]
        found.append((COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], dashes))
        place += 1
    return found


def tone(low: float | None, high: float | None, still: float = 0.0) -> str:
    """Return blue where an interval lies below `still`, orange where it lies above, else grey."""
    if low is None or high is None or not (high < still or low > still):
        return MUTED
    return BETTER if high < still else WORSE


def clean(text: str, longest: int = 40) -> str:
    """Return a name as a figure can show it: printable, of bounded length, not hidden by a leading underscore."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    shown = shown if len(shown) <= longest else shown[: longest - 1] + "…"
    return f"\N{ZERO WIDTH SPACE}{shown}" if shown.startswith("_") else shown


def row_key(label: str) -> str:
    """Return what a row is called in the page's addresses."""
    return re.sub(r"[^\w.:@+-]+", "_", label)
