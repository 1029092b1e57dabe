"""The rim: turns whatever ends a command into one message and an exit status, for every command alike."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from tread_bench.core.signals import STATUS, ctrl_c

if TYPE_CHECKING:
    from subprocess import CalledProcessError

    from tread_bench.cli.streams import UndeliveredError

WRONG = 2  # exit status: the input, or the machine, cannot be used
MISTAKE = 70  # exit status: an error of this program; EX_SOFTWARE of sysexits.h
READER_GONE = 1  # exit status: nobody reads stdout any more


def main() -> NoReturn:
    """Run the command that the arguments name, and end the process with its status.

    What the user can fix, the operating system refuses, or this program does wrong is one message on stderr. Ctrl-C
    ends it without a traceback from here on, so what takes time is imported later.
    """
    ctrl_c.install()
    try:
        from tread_bench.cli.streams import make_streams_fit

        make_streams_fit()
        status = _run()
        ctrl_c.finish(status)
        status = _delivered(status)
        ctrl_c.finish(status)
    except KeyboardInterrupt:  # at the instant at which the command ended
        ctrl_c.end_at_once()
    sys.exit(status)


def _run() -> int:
    """The exit status of the command."""
    from importlib import import_module

    os.environ.pop("TERMINAL_WIDTH", None)  # of typer, which fails where it is not a number
    try:
        import_module("tread_bench.cli.app").app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        ctrl_c.works = False
        return _report(error)
    return 0


def _delivered(status: int) -> int:
    """The exit status once all that was printed has reached its reader, or could not."""
    from tread_bench.cli.streams import UndeliveredError, flush_stdout

    try:
        flush_stdout()
    except UndeliveredError as error:
        return status or _tell_undelivered(error)
    return status


def _report(error: BaseException) -> int:
    """Report why the command ended, in one message; the exit status."""
    from subprocess import CalledProcessError

    from tread_bench.cli.streams import UndeliveredError
    from tread_bench.core.errors import OUT_OF_MEMORY, Passed, UserError, is_out_of_memory, os_error_text

    # Interrupted, whatever exception a library made of it.
    if isinstance(error, Passed):
        error = error.carried
    if ctrl_c.heard_at is not None or isinstance(error, KeyboardInterrupt):
        _say("interrupted")
        return STATUS

    # What the operating system refuses, or the user can fix.
    if isinstance(error, UndeliveredError):
        return _tell_undelivered(error)
    if isinstance(error, OSError):
        _say(os_error_text(error))
        return WRONG
    if isinstance(error, UserError):
        _say(str(error))
        return WRONG
    if isinstance(error, CalledProcessError):
        _say(_failed_command(error))
        return WRONG
    if is_out_of_memory(error):
        _say(OUT_OF_MEMORY)
        return WRONG

    # A mistake of this program.
    _say(_of_mistake(error))
    return MISTAKE


def _say(text: str) -> None:
    from tread_bench.core.errors import printable, shortened_middle

    sys.stderr.write("\n".join(shortened_middle(printable(line)) for line in text.split("\n")) + "\n")


def _tell_undelivered(error: UndeliveredError) -> int:
    """The exit status where what was printed did not reach its reader; a reader that is gone has read enough."""
    import errno

    from tread_bench.core.errors import os_error_text

    if error.errno == errno.EPIPE:
        return READER_GONE
    _say(f"{os_error_text(error)}; what could not be printed is lost")
    return WRONG


def _failed_command(error: CalledProcessError) -> str:
    name = error.cmd if isinstance(error.cmd, str) else " ".join(map(str, error.cmd[:3]))
    output = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else error.stderr or ""
    last = next(iter(output.strip().splitlines()[-1:]), "it printed nothing")
    return f"`{name}` failed with status {error.returncode}: {last}"


def _of_mistake(error: BaseException) -> str:
    """The message about an error of this program, whose log is written beside."""
    import traceback

    what = "".join(traceback.format_exception_only(error)).strip()
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({os.path.basename(last[0].filename)}, line {last[0].lineno})" if last else ""
    try:
        sent = f"send {_write_log(error)}, which says what happened and where"
    except OSError as unwritten:
        sent = f"send this message, since no log could be written ({unwritten.strerror})"
    return f"{what}{where}\nthis is a bug in tread-bench, not in its input; please report it: {sent}, and the suite"


def _write_log(error: BaseException) -> str:
    """Write what a bug report needs; the path of the file."""
    import platform
    import tempfile
    import traceback

    from tread_bench import __version__

    about = {
        "command": sys.argv,
        "folder": os.getcwd(),
        "tread-bench": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "torch": getattr(sys.modules.get("torch"), "__version__", "not loaded"),
    }
    lines = [f"{key}: {value}\n" for key, value in about.items()]
    handle, path = tempfile.mkstemp(prefix="tread-bench-crash-", suffix=".log")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines([*lines, *traceback.format_exception(error)])
    return path
