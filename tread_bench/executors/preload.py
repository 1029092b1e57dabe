"""The server that cells are forked from: it imports once what every cell needs, and ends with the runner."""

from __future__ import annotations

import sklearn.datasets  # noqa: F401  (slow to import, holds the digits)
import timm.layers  # noqa: F401  (slow to import, used by most adapters)

import tread_bench.cell
import tread_bench.speed  # noqa: F401
from tread_bench.executors.lifeline import end_with_parent

end_with_parent()
