"""Where results are printed."""

from __future__ import annotations

from rich.console import Console

WIDTH = 150  # of tables where stdout is not a terminal


def stdout_console() -> Console:
    """As wide as the terminal, or wide enough for a table where there is none."""
    console = Console(markup=False)  # names from a suite may contain brackets
    return console if console.is_terminal and console.width else Console(width=WIDTH, markup=False)
