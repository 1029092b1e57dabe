"""A picture: a Matplotlib figure as files and as a part of the page, the numbers behind it, and its words.

Files are drawn for paper, dark on white. In the page the same SVG takes its text, lines and ground from CSS variables,
so that one drawing serves light and dark. PNG and PDF are made where they are requested: each takes as long as the SVG.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal
from xml.etree import ElementTree

from markupsafe import Markup
from matplotlib.figure import Figure

from tread_bench.reports.figures.style import VARIABLES, theme

_UNDATED = {"svg": {"Date": None}, "png": {}, "pdf": {"CreationDate": None}}  # equal data give equal bytes
_PIXELS_PER_POINT = 1.45  # a little above 4/3, so that 9 pt text is as large as the page's small print
_SAID_BY_PAGE = ("font-family", "stroke-linejoin", "stroke-linecap")
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure with its words and its numbers; `name` is the file name without its ending."""

    name: str
    title: str
    description: str  # alternative text for readers who cannot see the picture
    caption: str
    numbers: Sequence[Mapping[str, str]]  # the lines of a table: column -> what is printed there
    drawing: Figure

    @property
    def table(self) -> list[tuple[str, ...]]:
        return [tuple(line.values()) for line in self.numbers]

    @cached_property
    def svg(self) -> bytes:
        with theme():
            content = _saved(self.drawing, "svg")
        self.drawing.set_layout_engine("none")  # it is laid out now
        return content

    def saved_as(self, kind: Literal["png", "pdf"]) -> bytes:
        """Return the file for papers and slides, laid out as the SVG; the same picture gives the same bytes."""
        _ = self.svg  # which lays the drawing out
        with theme():
            return _saved(self.drawing, kind)

    @property
    def inline(self) -> Markup:
        """The SVG for the page: named, described, coloured by CSS variables, its ids its own."""
        # Without what the page says itself.
        ElementTree.register_namespace("", _SVG)
        ElementTree.register_namespace("xlink", _XLINK)
        root = ElementTree.fromstring(self.svg)
        for parent in list(root.iter()):
            for child in list(parent):
                if child.tag.partition("}")[2] in ("metadata", "style"):
                    parent.remove(child)
        used = set(re.findall(r"#([^)\"]+)[)\"]", self.svg.decode()))
        for element in root.iter():
            _own_ids(element, self.name, used)
            _slim(element)
        _unwrap(root)

        # With its words, at the width of its text.
        for tag, text in (("desc", self.description), ("title", self.title)):
            child = ElementTree.Element(f"{{{_SVG}}}{tag}", id=f"{self.name}-{tag}")
            child.text = text
            root.insert(0, child)
        root.set("style", f"--width: {_PIXELS_PER_POINT * float(root.attrib.pop('width').removesuffix('pt')):.0f}px")
        del root.attrib["height"]
        root.set("role", "img")
        root.set("aria-labelledby", f"{self.name}-title {self.name}-desc")
        return Markup(ElementTree.tostring(root, encoding="unicode"))  # what it serialises is escaped


def _saved(figure: Figure, kind: str) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=_UNDATED[kind])
    return file.getvalue()


def _own_ids(element: ElementTree.Element, name: str, used: set[str]) -> None:
    """Several drawings share one page: ids in use get the drawing's name in front, colours become variables."""
    if element.get("id") not in used:
        element.attrib.pop("id", None)
    for key, value in element.attrib.items():
        if key == "id":
            value = f"{name}-{value}"
        elif key == f"{{{_XLINK}}}href":
            value = re.sub(r"^#", f"#{name}-", value)
        elif key in ("style", "clip-path", "fill", "stroke"):
            value = re.sub(r"url\(#", f"url(#{name}-", value)
            value = re.sub(r"#[0-9a-f]{6}", lambda found: VARIABLES.get(found[0], found[0]), value)
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
