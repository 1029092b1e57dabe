"""The three standard streams, set up so that the program does not fail where nobody reads them."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

_PLAIN = {"−": "-", "–": "-", "×": "x", "±": "+-", "≤": "<=", "≥": ">=", "…": "...", "→": "->", "∞": "inf", "Δ": "d"}


def _plain(error: UnicodeError) -> tuple[str, int]:
    """For characters that the encoding does not have: what people type in their place, or an escape."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in text), error.end


def make_streams_fit() -> None:
    """Open closed streams, make every text encodable, and ignore failures of stderr.

    A closed stream's number would be given to the next file that is opened, and what libraries print would go there.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115, it is read until the process ends
    stdout, stderr = io.FileIO(1, "w", closefd=False), _Lossy(2, "w", closefd=False)
    codecs.register_error("plain", _plain)
    sys.stdout = _Stdout(io.BufferedWriter(stdout), _encoding(sys.stdout), "plain", line_buffering=stdout.isatty())
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(stderr), _encoding(sys.stderr), "plain", line_buffering=True)


def _encoding(stream: TextIO | None) -> str:
    """Descriptor of a stream; the stream is None where it was closed."""
    return stream.encoding if stream else "utf-8"


class UndeliveredError(OSError):
    """What was printed on stdout did not reach its reader."""


class _Stdout(io.TextIOWrapper):
    """stdout, whose failure is an UndeliveredError.

    Above the buffer, not below it: after an interrupted write of a raw file in Python, the buffer writes again.
    """

    def write(self, text: str) -> int:
        with _undelivered():
            return super().write(text)

    def flush(self) -> None:
        with _undelivered():
            super().flush()


@contextmanager
def _undelivered() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UndeliveredError(error.errno, error.strerror, "standard output") from None


class _Lossy(io.FileIO):
    """A file that accepts all text and drops what its reader does not take: progress is not worth losing a run."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def flush_stdout() -> None:
    """Send what was printed to its reader. Raises OSError, and then drops the rest, so that no later flush fails."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout.flush()
        raise
