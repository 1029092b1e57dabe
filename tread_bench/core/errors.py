"""Errors that the user can fix, and their wording."""

from __future__ import annotations

import errno
import sys
from typing import TypeGuard

OUT_OF_MEMORY = "out of memory: use smaller batches or networks, or give the process more (`ulimit -v`)"
_SPACE = "free some space (`tread-bench clean` removes what finished cells no longer need)"
DISK_ERRORS = {  # that end a run, and what makes it resume
    errno.EDQUOT: _SPACE,
    errno.EFBIG: "let files be larger (`ulimit -f unlimited`)",
    errno.EIO: "repair the disk",
    errno.ENOSPC: _SPACE,
    errno.EROFS: "make the disk writable: it is read-only",
}
_HALF = 500  # characters of each half of a shortened message
_WAYS_OUT = {
    **DISK_ERRORS,
    errno.EACCES: "change its permissions, or name another place",
    errno.EMFILE: "raise the limit with `ulimit -n`, or request fewer workers",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.EPERM: "change its permissions, or name another place",
}


class UserError(ValueError):
    """Input that cannot be used; the text names the value, the rule and the way out. Exit status 2."""


class LostError(RuntimeError):
    """A task was ended from outside, so that a retry may well succeed."""


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


def error_text(error: BaseException) -> str:
    """Describe an exception of any code, with its notes, in at most 1,000 characters."""
    lines = [str(error).strip() or "no message", *getattr(error, "__notes__", ())]
    return shortened_middle(f"{type(error).__name__}: " + "\n".join(lines))


def failure_text(error: BaseException) -> str:
    """Return one line that says why a task failed."""
    reason = error_text(error).splitlines()[0]
    return f"{OUT_OF_MEMORY} ({reason})" if is_out_of_memory(error) else reason


def is_of_disk(error: BaseException) -> TypeGuard[OSError]:
    """Return whether a disk is full, broken or read-only, or lets no file be larger."""
    return isinstance(error, OSError) and error.errno in DISK_ERRORS


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, of the machine or of a GPU."""
    of_torch = getattr(sys.modules.get("torch"), "OutOfMemoryError", MemoryError)
    return isinstance(error, (MemoryError, of_torch))
