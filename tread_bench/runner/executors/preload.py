"""What every cell needs, imported once by the server that cells are forked from."""

from __future__ import annotations

import sklearn.datasets  # noqa: F401  (slow to import, holds the digits)
import timm.layers  # noqa: F401  (slow to import, used by most adapters)

import tread_bench.cell.run
import tread_bench.cell.speed  # noqa: F401
