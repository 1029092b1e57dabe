"""The three standard streams, made fit for a program that must not fail for want of a reader."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


def make_streams_fit() -> None:
    """Open those that are closed, let no text fail to be encoded, and let stderr fail unnoticed.

    A closed stream's number would be given to the next file that is opened, and what libraries print would go there.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)
    sys.stdout, sys.stderr = _text(_Told, sys.stdout), _text(_Lossy, sys.stderr)


def _text(kind: type[io.FileIO], before: TextIO | None) -> io.TextIOWrapper:
    """A text stream like the one before, which is None where it was closed; characters it has not are escaped."""
    raw = kind(1 if kind is _Told else 2, "w", closefd=False)
    encoding = before.encoding if before else "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, errors="backslashreplace", line_buffering=kind is _Lossy or raw.isatty()
    )


class UndeliveredError(OSError):
    """What was printed on stdout did not reach its reader."""


class _Told(io.FileIO):
    """stdout, whose failure can be told from that of other files."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            raise UndeliveredError(error.errno, error.strerror, "standard output") from None


class _Lossy(io.FileIO):
    """A file that takes all that is written and loses what its reader does not: progress is not worth a run."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def flush_stdout() -> None:
    """Have what was printed reach its reader. Raises OSError, and then drops the rest, so that no later flush fails."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout.flush()
        raise
