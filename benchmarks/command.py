"""How the commands of this package end."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tread_bench.core.errors import UserError, os_error_text


def status_of(command: Callable[[], int]) -> int:
    """Run a command; its exit status: 2 after one message where an argument is wrong, 130 after Ctrl-C."""
    try:
        return command()
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(os_error_text(error), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
