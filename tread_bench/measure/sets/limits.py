"""What holds for the images of every set, however they are stored."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_files import stamp_of

CHANNELS = (1, 3)
MOST_SIDE = 4096  # pixels; no feature network sees more than a few hundred


@dataclass(frozen=True)
class Unchanged:
    """Files as they were when their set was opened, by their stamps.

    Args:
        whole: the set's file or folder, for messages.
        names: of its files; with `whole`, their paths.
    """

    whole: str
    names: tuple[str, ...]
    sha256: str

    @classmethod
    def now(cls, whole: str, names: Sequence[str] = ("",)) -> Self:
        """Raises UserError."""
        digest = hashlib.sha256()
        for name in names:
            try:
                about = os.stat(whole + name)
            except OSError as error:
                raise UserError(f"{whole}{name}: cannot be read ({error.strerror}); put it back") from None
            digest.update(f"{stamp_of(about)}\n".encode())
        return cls(whole, tuple(names), digest.hexdigest())

    def check(self) -> None:
        """Raise UserError if they are not as they were."""
        if self.now(self.whole, self.names) != self:
            raise UserError(f"{self.whole} has changed since it was opened: run the command again when it is complete")
