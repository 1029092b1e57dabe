"""Tables to publish as CSV, Markdown and LaTeX."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from tread_bench.core.numbers.statistics import MeanInterval
from tread_bench.reports.frame import inert, storable
from tread_bench.reports.text.numbers import DASH, MINUS, interval, number

NOT_REACHED = sys.float_info.max  # sorts what was not reached behind all that was


class Entry(NamedTuple):
    """One cell of a table: its text, a smaller second line, what it is sorted by, and the bounds of an interval."""

    text: str
    below: str = ""
    key: float | str | None = None
    bounds: tuple[float, float] | None = None

    @property
    def value(self) -> float | None:
        """The number that it shows, with all digits; None of a text, and of what was not reached."""
        return self.key if isinstance(self.key, int | float) and self.key < NOT_REACHED else None


def estimate_entry(
    estimate: MeanInterval | None, places: int, signed: bool = False, can_be_negative: bool = False
) -> Entry:
    """Return a mean with its interval, or why it has none; a dash for no estimate."""
    if estimate is None:
        return Entry(DASH)
    below = "one seed" if estimate.bounds is None else interval(estimate, places, signed, can_be_negative)
    return Entry(number(estimate.mean, places, signed), below, estimate.mean, estimate.bounds)


@dataclass(frozen=True, slots=True)
class Table:
    """A table to publish; `name` is the file name without its ending."""

    name: str
    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Entry]]


def as_csv(table: Table) -> str:
    """Numbers with all digits, intervals as columns of bounds; the first column names the table on every line."""
    columns = [("tread-bench table", [table.title] * len(table.rows))]
    for place, header in enumerate(table.headers):
        columns += _columns_of_csv(header, [row[place] for row in table.rows])

    frame = pd.DataFrame({_of_csv(header): texts for header, texts in columns})
    return frame.map(_of_csv).to_csv(index=False, lineterminator="\n")


def _columns_of_csv(header: str, entries: Sequence[Entry]) -> Iterator[tuple[str, list[str]]]:
    """A column and, where some entry has them, its bounds, or else its second text."""
    yield header, [_machine_readable(e.text) if e.value is None else repr(e.value) for e in entries]
    if any(entry.bounds for entry in entries):
        for place, bound in enumerate(("low", "high")):
            yield f"{header}, {bound}", [repr(e.bounds[place]) if e.bounds else "" for e in entries]
    elif any(entry.below for entry in entries):
        yield f"{header}, note", [_machine_readable(entry.below) for entry in entries]


def _of_csv(text: str) -> str:
    """Inert in a spreadsheet, unless it is a number."""
    return text if _NUMBER.fullmatch(text) else str(inert(storable(text)))


_NUMBER = re.compile(r"[+-]?(\d+(\.\d+)?([eE][+-]?\d+)?|inf|nan)")
_SHOWN_NUMBER = re.compile(r"[+-]?\d{1,3}(,\d{3})*(\.\d+)?")


def _machine_readable(text: str) -> str:
    """With an ASCII minus, without separators of thousands; a dash for nothing is empty."""
    if text == DASH:
        return ""
    plain = text.replace(MINUS, "-")
    return plain.replace(",", "").removeprefix("+") if _SHOWN_NUMBER.fullmatch(plain) else plain


def as_markdown(table: Table) -> str:
    """Return a table of GitHub's Markdown, numbers to the right; names are shown as they are."""
    lines = [[_shown(entry) for entry in row] for row in table.rows]
    marks = ["---" if place == 0 else "--:" for place in range(len(table.headers))]
    rows = (list(map(markdown_text, table.headers)), marks, *(list(map(markdown_text, line)) for line in lines))
    body = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return f"**{markdown_text(table.title)}**\n\n{body}"


def markdown_text(text: str) -> str:
    """One line, with a backslash before all that Markdown or HTML would read as more than text."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&$])", r"\\\1", _one_line(text))


def as_latex(table: Table) -> str:
    """Return a tabular for the package booktabs, to be read by \\input; the title is a comment."""
    lines = [[_shown(entry) for entry in row] for row in table.rows]
    body = "".join(f"{' & '.join(map(latex, line))} \\\\\n" for line in lines)
    return (
        f"% {_one_line(table.title)}\n"
        "% needs \\usepackage{booktabs}\n"
        f"\\begin{{tabular}}{{l{'r' * (len(table.headers) - 1)}}}\n"
        f"\\toprule\n{' & '.join(map(latex, table.headers))} \\\\\n\\midrule\n{body}"
        "\\bottomrule\n\\end{tabular}\n"
    )


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{character: f"{{{character}}}" for character in "[]*`'"},  # after a line's end they would be its arguments
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}",
    "<": r"\textless{}", ">": r"\textgreater{}", '"': r"\textquotedbl{}", "-": "{-}",
    MINUS: "$-$", DASH: "--", "×": r"$\times$", "±": r"$\pm$", "→": r"$\to$", "≤": r"$\le$", "≥": r"$\ge$",
    "Δ": r"$\Delta$", "σ": r"$\sigma$", "…": r"\ldots{}", "’": "{'}", "²": r"$^2$", "⁹": r"$^9$", "·": r"$\cdot$",
}  # fmt: skip


def latex(text: str) -> str:
    """Return the text for LaTeX, character by character; letters of other scripts stay and need LuaLaTeX or XeLaTeX."""
    return "".join(_LATEX.get(character, character) for character in _one_line(text))


def _shown(entry: Entry) -> str:
    return f"{entry.text} ({entry.below})" if entry.below else entry.text


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text.encode("utf-8", "replace").decode())


FORMATS: Mapping[str, Callable[[Table], str]] = {"csv": as_csv, "md": as_markdown, "tex": as_latex}
