"""How work in progress is reported."""

from __future__ import annotations

from collections.abc import Callable

ReportProgress = Callable[[str, int, int], None]  # (name of the work, how much of it is done, how much there is)
