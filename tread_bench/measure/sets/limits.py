"""What holds for the images of every set, however they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tread_bench.core.data_files import FileState, state_of
from tread_bench.core.errors import UserError

CHANNELS = (1, 3)
MOST_SIDE = 4096  # pixels; no feature network sees more than a few hundred


@dataclass(frozen=True)
class Unchanged:
    """A file, or a folder with a separator at its end, as it was when its set was opened."""

    path: str
    state: FileState

    @classmethod
    def now(cls, path: str) -> Self:
        """Raises UserError."""
        try:
            return cls(path, state_of(path))
        except OSError as error:
            raise UserError(f"{error.filename or path} cannot be read ({error.strerror}); put it back") from None

    def check(self) -> None:
        """Raise UserError if it is not as it was."""
        if self.now(self.path) != self:
            raise UserError(f"{self.path} has changed since it was opened: run the command again when it is complete")
