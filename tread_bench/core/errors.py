"""What the user can fix, and how it is put into words."""

from __future__ import annotations

import errno

LARGEST = 10**18  # of the integers that a user may give: it fits 64 bits, and products of some still are floats
_HALF = 500  # characters of a message, of which there are at most two halves
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
    """Input that cannot be used: its text names the value, the rule and the way out. Exit status 2."""


class Passed(BaseException):
    """Carries an exception past a library that has its own idea of what to do about it."""

    def __init__(self, carried: BaseException) -> None:
        self.carried = carried


def printable(text: str) -> str:
    """One line without characters that a terminal would obey, or that look like others: each as its escape, \\x1b."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shortened_middle(text: str) -> str:
    """A message of at most 1,000 characters: what is wrong stands at its start, the way out at its end."""
    return text if len(text) <= 2 * _HALF else f"{text[:_HALF]} … {text[-_HALF:]}"


def os_error_text(error: OSError) -> str:
    """What the operating system refused, where, and the way out."""
    where = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    reason = error.strerror or str(error) or type(error).__name__
    way_out = _WAYS_OUT.get(error.errno or 0)
    return (f"{where}: " if where else "") + reason + (f"; {way_out}" if way_out else "")
