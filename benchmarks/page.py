"""The place on a page that a command fills: what stands between two marks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tread_bench.core.errors import UserError
from tread_bench.core.stored.files import write_atomically


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a command, by which its marks are called."""

    command: str

    @property
    def begin(self) -> str:
        return f"<!-- begin: {self.command} -->"

    @property
    def end(self) -> str:
        return f"<!-- end: {self.command} -->"

    def text_of(self, page: Path) -> str:
        """The text of a page that has this place. Raises UserError."""
        try:
            text = page.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{page} cannot be read ({error}): name a page") from None
        if text.count(self.begin) != 1 or text.count(self.end) != 1 or text.index(self.begin) > text.index(self.end):
            raise UserError(
                f"{page} has no place for the table: put the lines {self.begin} and {self.end} where it belongs"
            )
        return text

    def replace(self, page: Path, content: str) -> None:
        """Replace what stands there, and nothing else. Raises UserError."""
        between = re.compile(f"{re.escape(self.begin)}.*{re.escape(self.end)}", re.DOTALL)
        filled = f"{self.begin}\n\n{content}\n\n{self.end}"
        write_atomically(page, between.sub(lambda _: filled, self.text_of(page)))
