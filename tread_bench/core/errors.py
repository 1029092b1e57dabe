"""What the user can fix, and how it is put into words."""

from __future__ import annotations

import errno
import re

# C0 and C1 but tab and newline, and what changes the direction of text: each can make a terminal show something else.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LARGEST = 10**18  # of the integers that a user may give: it fits 64 bits, and products of some still are floats
_WAYS_OUT = {
    errno.EACCES: "change its permissions, or name another place",
    errno.EDQUOT: "free some space, or name another place",
    errno.EMFILE: "raise the limit with `ulimit -n`, or ask for fewer workers",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ENFILE: "too many files are open on this machine: end other programs",
    errno.ENOSPC: "free some space, or name another place",
    errno.EPERM: "change its permissions, or name another place",
    errno.EROFS: "name a place that can be written to",
}


class UserError(ValueError):
    """Input that cannot be used: its text names the value, the rule and the way out. Exit status 2."""


def printable(text: str) -> str:
    """Without control characters, which could steer a terminal: each is written as its escape, such as \\x1b."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def os_error_text(error: OSError) -> str:
    """What the operating system refused, where, and the way out."""
    where = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    told = error.strerror or str(error) or type(error).__name__
    way_out = _WAYS_OUT.get(error.errno or 0)
    return (f"{where}: " if where else "") + told + (f"; {way_out}" if way_out else "")
