"""Errors that the user can fix, and their wording."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

LARGEST = 10**18  # maximum of a user's integers: fits 64 bits, and products of several still fit a float
_HALF = 500  # characters of each half of a shortened message
_WAYS_OUT = {
    errno.EACCES: "change its permissions, or name another place",
    errno.EDQUOT: "free some space, or name another place",
    errno.EMFILE: "raise the limit with `ulimit -n`, or request fewer workers",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ENFILE: "too many files are open on this machine: end other programs",
    errno.ENOSPC: "free some space, or name another place",
    errno.EPERM: "change its permissions, or name another place",
    errno.EROFS: "name a place that can be written to",
}


class UserError(ValueError):
    """Input that cannot be used; the text names the value, the rule and the way out. Exit status 2."""


@contextmanager
def collected(problems: list[str]) -> Iterator[None]:
    """Add the text of a UserError to the problems instead of raising it, so that all mistakes are reported at once."""
    try:
        yield
    except UserError as error:
        problems.append(str(error))


class Passed(BaseException):
    """Carries an exception past a library that would handle it in its own way."""

    def __init__(self, carried: BaseException) -> None:
        self.carried = carried


def printable(text: str) -> str:
    """Return one line in which control characters and look-alikes are escaped, as in \\x1b."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shortened_middle(text: str) -> str:
    """Shorten a message to 1,000 characters, keeping its start (what is wrong) and its end (the way out)."""
    return text if len(text) <= 2 * _HALF else f"{text[:_HALF]} … {text[-_HALF:]}"


def os_error_text(error: OSError) -> str:
    """Describe what the operating system refused, where, and the way out."""
    where = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    reason = error.strerror or str(error) or type(error).__name__
    way_out = _WAYS_OUT.get(error.errno or 0)
    return (f"{where}: " if where else "") + reason + (f"; {way_out}" if way_out else "")
