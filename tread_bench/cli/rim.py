"""The rim: turns whatever ends a command into one message and an exit status, for every command alike."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from tread_bench.core.processes import INTERRUPTED

READER_GONE = 1  # exit status: nobody reads stdout any more
WRONG = 2  # exit status: the input, or the machine, cannot be used
MISTAKE = 70  # exit status: an error of this program; EX_SOFTWARE of sysexits.h


def main() -> NoReturn:
    """Run the command that the arguments name, and end the process with its status.

    What the user can fix, or the operating system refuses, is one message on stderr; only a mistake of this program
    has a traceback.
    """
    # While the command is imported, and once it is over, Ctrl-C ends the process at once: an exception in the middle
    # of an import may be swallowed. In between it is a KeyboardInterrupt (see `Commands`).
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end_at_once)
    make_streams_fit()
    os.environ.pop("TERMINAL_WIDTH", None)  # of typer, which fails where it is not a number
    try:
        from tread_bench.cli.app import app

        app()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        status = _report(error)

    # What was printed reaches its reader only now, if at all.
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that no later flush fails
        status = status or _report(error)
    sys.exit(status)


def make_streams_fit() -> None:
    """Open closed streams, and make every text encodable.

    A closed stream's number would be given to the next file that is opened, and what libraries print would go there.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            os.set_inheritable(number, True)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115, it is read until the process ends
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _end_at_once(number: int, frame: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _report(error: BaseException) -> int:
    """Report why the command ended; the exit status."""
    from tread_bench.core.errors import OUT_OF_MEMORY, Passed, UserError, is_out_of_memory, os_error_text

    if isinstance(error, Passed):
        error = error.carried
    if _is_interrupt(error):
        return _say("interrupted", INTERRUPTED)
    if isinstance(error, BrokenPipeError) and error.filename is None:
        return READER_GONE
    if isinstance(error, OSError):
        return _say(os_error_text(error), WRONG)
    if isinstance(error, UserError):
        return _say(str(error), WRONG)
    if is_out_of_memory(error):
        return _say(OUT_OF_MEMORY, WRONG)

    # A mistake of this program.
    sys.excepthook(type(error), error, error.__traceback__)
    return _say("this is a bug in tread-bench, not in its input; please report it with the suite", MISTAKE)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether it began as a Ctrl-C, whatever exception a library made of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _say(text: str, status: int) -> int:
    from tread_bench.core.errors import printable, shortened_middle

    print("\n".join(shortened_middle(printable(line)) for line in text.split("\n")), file=sys.stderr)
    return status
