"""What the documents promise: links and paths that lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path.relative_to(CHECKOUT).as_posix() for path in [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")]
)


def broken_links(file: Path) -> list[str]:
    """Relative links of a Markdown file to no file, or to no heading of one."""
    links = re.findall(r"\]\(([^)\s]+)\)|(?:href|src|srcset)=\"([^\"\s]+)\"", prose(file))
    found = (markdown or html for markdown, html in links)
    return [link for link in found if "://" not in link and not leads_somewhere(file, link)]


def leads_somewhere(file: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = file.parent / path if path else file
    return target.exists() and (not anchor or anchor in anchors(target))


def anchors(file: Path) -> set[str]:
    """Anchors that GitHub gives to the headings of a file, each heading there once."""
    headings = re.findall(r"^#+ (.+)$", prose(file), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def prose(file: Path) -> str:
    """The text of a Markdown file without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


FOLDERS = ("backbones", "benchmarks", "docs", "reports", "suites", "tests", "tread_bench")


def gone(file: Path) -> list[str]:
    """Paths in backticks, from a folder of the checkout on, that lead nowhere; a word in capitals stands for any."""
    named = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", prose(file))
    return [path for path in named if not any(CHECKOUT.glob(re.sub(r"\b[A-Z]+\b", "*", path)))]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_and_paths_lead_somewhere(document: str) -> None:
    assert (broken_links(CHECKOUT / document), gone(CHECKOUT / document)) == ([], [])
