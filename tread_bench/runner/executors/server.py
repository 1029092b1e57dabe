"""Imported by the server that cells are forked from: it ends with its runner, even while it still imports.

The standard library has one such server per program. Where a program has started it for processes of its own, its cells
are forked from that one, and each imports this itself.
"""

import os
from contextlib import suppress
from importlib import import_module

from tread_bench.core.processes import RUNNER, end_with_parent

if RUNNER in os.environ:
    end_with_parent(int(os.environ[RUNNER]))
    PID = os.getpid()
else:
    PID = os.getppid()

# What torch compiles is kept, but not among temporary files. joblib makes semaphores there, which a kill would leave; a
# cell starts no processes that need them.
from tread_bench.core.errors import failure_text
from tread_bench.core.stored.cache import cache_folder

with suppress(OSError):  # there is no home that can be written to
    compiled = cache_folder("inductor")
    compiled.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(compiled))
os.environ["JOBLIB_MULTIPROCESSING"] = "0"

# What every cell would do first, once. Where that fails, each child reports it.
failure = ""
try:
    import_module("tread_bench.cell.warm")
except Exception as error:
    failure = failure_text(error)
