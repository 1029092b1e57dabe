"""How pictures look, and how a Matplotlib figure becomes files and a part of the page.

Files are drawn for paper, dark on white. In the page the same SVG takes its text, lines and ground from CSS variables,
so that one drawing serves light and dark. Every picture is an SVG; PNG and PDF are made only where they are requested,
since each of them takes as long as the SVG.
"""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

INK, MUTED, RULE, SURFACE = "#1b1f24", "#59636e", "#d6dbe1", "#ffffff"
_VARIABLES = {INK: "var(--ink)", MUTED: "var(--muted)", RULE: "var(--rule)", SURFACE: "var(--surface)"}

BETTER, WORSE = "#0072b2", "#d55e00"
DIVERGING = LinearSegmentedColormap.from_list("difference", [BETTER, "#a3abb3", WORSE])  # grey: seen on white and black

# Okabe and Ito's colours that stand out on white and on black; 6 colours and 7 shapes repeat together after 42 rows
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("s", "^", "D", "v", "P", "X", "p")

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
    "ytick.color": RULE,
    "ytick.labelcolor": INK,
}

_UNDATED = {"svg": {"Date": None}, "png": {}, "pdf": {"CreationDate": None}}  # equal data give equal bytes
_exports: ContextVar[bool] = ContextVar("_exports", default=False)


@contextmanager
def theme(exports: bool = False) -> Iterator[None]:
    """Settings for drawing and for saving, and whether PNG and PDF are saved beside the SVG.

    A glyph that the font lacks is drawn as a box, not warned about.
    """
    token = _exports.set(exports)
    try:
        with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")
            yield
    finally:
        _exports.reset(token)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure with its words and its numbers; `name` is the file name without its ending."""

    name: str
    title: str
    description: str  # alternative text for readers who cannot see the picture
    caption: str
    headers: tuple[str, ...]
    table: Sequence[tuple[str, ...]]
    files: Mapping[str, bytes]  # by kind: the SVG, and others that were requested
    basis: str = ""  # what rows are compared at; the page switches between pictures of one title
    is_open: bool = False  # the page shows the table at once
    is_folded: bool = False  # the page shows the picture on demand

    @property
    def svg(self) -> bytes:
        return self.files["svg"]

    @property
    def inline(self) -> Markup:
        """The SVG for the page: named, described, coloured by CSS variables, its ids its own."""
        root = _inline(self.svg, self.name, self.title, self.description)
        _name_marks(root, self._tips())
        return Markup(ElementTree.tostring(root, encoding="unicode"))  # what it serialises is escaped

    def _tips(self) -> dict[str, str]:
        """Row -> what the tooltip of its marks says: its numbers, where the table has one line of it, else its name."""
        lines = Counter(line[0] for line in self.table)
        tips = {}
        for label, *values in self.table:
            numbers = zip(self.headers[1:], values, strict=False) if lines[label] == 1 else ()
            tips[row_key(label)] = "\n".join([label, *(f"{header}: {value}" for header, value in numbers)])
        return tips


def save(figure: Figure) -> Mapping[str, bytes]:
    """Return the SVG and, in a `theme` that exports, all other kinds; the same figure gives the same bytes."""
    for number, artist in enumerate(figure.findobj(lambda artist: (artist.get_gid() or "").startswith(_MARK))):
        artist.set_gid(f"{artist.get_gid()}~{number}")  # ids are unique within a file
    files = {"svg": _saved(figure, "svg")}
    figure.set_layout_engine("none")  # it is laid out now
    if _exports.get():
        files |= {kind: _saved(figure, kind) for kind in ("png", "pdf")}
    return files


def _saved(figure: Figure, kind: str) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=_UNDATED[kind])
    return file.getvalue()


def looks(is_dense: Iterable[bool]) -> list[tuple[str, str]]:
    """(colour, marker) of every row: dense a circle in the colour of the text, the others different in both."""
    others = zip(itertools.cycle(COLOURS), itertools.cycle(MARKERS), strict=False)
    return [(INK, "o") if dense else next(others) for dense in is_dense]


def clean(text: str, longest: int = 40) -> str:
    """Return a name as a figure can show it: printable, of bounded length, not hidden by a leading underscore."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    shown = shown if len(shown) <= longest else shown[: longest - 1] + "…"
    return f"\N{ZERO WIDTH SPACE}{shown}" if shown.startswith("_") else shown


def row_key(label: str) -> str:
    """Return what a row is called in the page's addresses, and what marks of a picture belong to it."""
    return re.sub(r"[^\w.:@+-]+", "_", label)


@contextmanager
def marks_of(label: str, *panels: Axes) -> Iterator[None]:
    """What is drawn inside belongs to the row of that label: the page names, selects and hides it together."""
    before = {id(artist) for axes in panels for artist in axes.get_children()}
    yield
    for axes in panels:
        for artist in axes.get_children():
            if id(artist) not in before:
                artist.set_gid(mark(label))


def mark(label: str) -> str:
    """Return the id of what belongs to a row, which `save` makes unique."""
    return f"{_MARK}{row_key(label)}"


_MARK = "row-"
_PIXELS_PER_POINT = 1.45  # a little above 4/3, so that 9 pt text is as large as the page's small print
_SAID_BY_PAGE = ("font-family", "stroke-linejoin", "stroke-linecap")
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"


def _inline(svg: bytes, name: str, title: str, description: str) -> ElementTree.Element:
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    root = ElementTree.fromstring(svg)  # written by `save` above
    _drop(root, "metadata", "style")
    used = set(re.findall(r"#([^)\"]+)[)\"]", svg.decode()))
    for element in root.iter():
        _own_ids(element, name, used)
        _slim(element)
    _unwrap(root)
    for tag, text in (("desc", description), ("title", title)):
        child = ElementTree.Element(f"{{{_SVG}}}{tag}", id=f"{name}-{tag}")
        child.text = text
        root.insert(0, child)
    root.set("style", f"--width: {_PIXELS_PER_POINT * float(root.attrib.pop('width').removesuffix('pt')):.0f}px")
    del root.attrib["height"]
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    return root


def _name_marks(root: ElementTree.Element, words: Mapping[str, str]) -> None:
    """Give the marks of each row its words, which browsers show as a tooltip."""
    for element in root.iter(f"{{{_SVG}}}g"):
        text = words.get(element.get("data-row", ""))
        if text:
            title = ElementTree.Element(f"{{{_SVG}}}title")
            title.text = text
            element.insert(0, title)


def _drop(root: ElementTree.Element, *tags: str) -> None:
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag.partition("}")[2] in tags]:
            parent.remove(child)


def _own_ids(element: ElementTree.Element, name: str, used: set[str]) -> None:
    """Several drawings share one page: ids in use get the drawing's name in front, colours become variables."""
    row, is_mark, _ = (element.get("id") or "").removeprefix(_MARK).rpartition("~")
    if is_mark:
        element.set("data-row", row)
    if element.get("id") not in used:
        element.attrib.pop("id", None)
    for key, value in element.attrib.items():
        if key == "id":
            value = f"{name}-{value}"
        elif key == f"{{{_XLINK}}}href":
            value = re.sub(r"^#", f"#{name}-", value)
        elif key in ("style", "clip-path", "fill", "stroke"):
            value = re.sub(r"url\(#", f"url(#{name}-", value)
            value = re.sub(r"#[0-9a-f]{6}", lambda found: _VARIABLES.get(found[0], found[0]), value)
        element.set(key, value)


def _slim(element: ElementTree.Element) -> None:
    """Hundredths of a point, no indentation, no rotation by nothing, and none of what the page's own style says."""
    element.tail = None
    element.text = (element.text or "").strip() or None
    for key in {"d", "x", "y"}.intersection(element.keys()):
        rounded = re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", element.attrib[key])
        element.set(key, re.sub(r" *([A-Za-z]) *", r"\1", rounded.strip()))
    if "style" in element.attrib:
        parts = element.attrib["style"].split("; ")
        element.set("style", ";".join(part for part in parts if not part.startswith(_SAID_BY_PAGE)))
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]


def _unwrap(parent: ElementTree.Element) -> None:
    """Replace groups without attributes by their contents."""
    kept = []
    for child in parent:
        _unwrap(child)
        kept += [*child] if child.tag == f"{{{_SVG}}}g" and not child.attrib else [child]
    parent[:] = kept
