"""Imported by a process that cells are forked from: what every cell would do first is done here, once.

Nothing here starts a thread, touches a GPU or uses autograd: those do not survive a fork.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from threading import RLock

from tqdm import tqdm

import tread_bench.cell.run
import tread_bench.cell.speed  # noqa: F401
from tread_bench.core.describe.families import families

# Its own lock is a semaphore of the system, which a kill may leave behind.
tqdm.set_lock(RLock())

# scikit-learn holds the digits, timm what most adapters use; both are slow to import.
for module in ("sklearn.datasets", "timm.layers"):
    importlib.import_module(module)

with suppress(Exception):  # every cell that needs them meets the same mistake, and reports it
    families()
with suppress(Exception):  # a cell that uses the kernel meets the same error, and reports it
    importlib.import_module("tread_bench.model.ops.cpu.adaln_operator").prepare()
