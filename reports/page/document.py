"""What every page is made of: one self-contained HTML file and its pictures; and what is exported for papers."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tread_bench.core.stored.files import refuse_linked, write_atomically
from tread_bench.core.stored.foreign import pictures_of
from tread_bench.reports.figures.picture import Picture
from tread_bench.reports.figures.style import row_key
from tread_bench.reports.frame import flat
from tread_bench.reports.tables import FORMATS, Entry, Table
from tread_bench.reports.text.numbers import FILTERS

SMOOTH = 32  # pixels from which an image is scaled smoothly; smaller ones show their pixels


def data_uri(picture: bytes, kind: str) -> str:
    """Return a picture, `kind` png or webp, as the address of itself, so that it is inside the page."""
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


_TEMPLATES = Environment(
    loader=PackageLoader("tread_bench.reports.page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters.update(FILTERS, flat=flat, data_uri=data_uri, row_key=row_key)


def write_pictures(drawn: Sequence[Picture], out: Path) -> None:
    """Write the pictures of a page as out/figures/*.svg; remove those that only the page which is there names.

    Raises:
        OutputError: a picture, or the folder of pictures, is a link.
    """
    folder = out / "figures"
    refuse_linked([folder])

    # Write those that are drawn.
    if drawn:
        folder.mkdir(exist_ok=True)
    for picture in drawn:
        write_atomically(folder / f"{picture.name}.svg", picture.svg)

    # Remove those of the earlier page.
    current = {f"{picture.name}.svg" for picture in drawn}
    for name in pictures_of(out / "index.html") or ():
        path = folder / Path(name).name
        if path.name not in current and path.suffix == ".svg" and not path.is_symlink():
            path.unlink(missing_ok=True)


def write_page(out: Path, template: str, drawn: Sequence[Picture], **context: Any) -> None:
    """Write out/index.html from a template of this package, with the style and the script of all pages, and its
    pictures, which its head names.

    Raises:
        OutputError: what would be replaced is a link.
    """
    write_pictures(drawn, out)

    # Style and script are inside the page, which then needs no other file.
    templates = files("tread_bench.reports.page") / "templates"
    script = (templates / "page.js").read_text(encoding="utf-8")
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = (templates / "page.css").read_text(encoding="utf-8")
    page = as_html(
        template,
        **context,
        figures=" ".join(f"{picture.name}.svg" for picture in drawn),
        script=Markup(script),  # the package's own files
        style=Markup(style),
        script_hash=script_hash,
    )
    write_atomically(out / "index.html", page.encode("utf-8", "replace"))


def as_html(template: str, **context: Any) -> str:
    """Return a page, or a part of one for a notebook, from a template of this package."""
    return _TEMPLATES.get_template(template).render(**context)


def write_export(folder: Path, tables: Sequence[Table], drawn: Sequence[Picture], is_smoke: bool = False) -> None:
    """Write each table as CSV, Markdown and LaTeX; each picture as SVG, PNG and PDF, and its numbers.

    Args:
        is_smoke: whether they are of a smoke run, which the title of every table then says.

    Raises:
        ValueError: two tables have one name.
        OutputError: a file to replace is a link.
    """
    # The numbers of a picture are a table of its name.
    of_pictures = []
    for picture in drawn:
        lines = [[*map(Entry, line)] for line in picture.table]
        of_pictures.append(Table(picture.name, picture.title, tuple(picture.numbers[0]), lines))

    published = [*tables, *of_pictures]
    if is_smoke:
        published = [replace(table, title=f"{table.title} (smoke run)") for table in published]

    # The files of each table, and of each picture.
    if len({table.name for table in published}) < len(published):
        raise ValueError(f"two tables of one name: {sorted(table.name for table in published)}")
    for table in published:
        for ending, text_of in FORMATS.items():
            write_atomically(folder / f"{table.name}.{ending}", text_of(table))
    for picture in drawn:
        write_atomically(folder / f"{picture.name}.svg", picture.svg)
        write_atomically(folder / f"{picture.name}.png", picture.saved_as("png"))
        write_atomically(folder / f"{picture.name}.pdf", picture.saved_as("pdf"))
