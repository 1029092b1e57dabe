"""Imported first by the server that cells are forked from: it ends with its runner, even while it still imports."""

from __future__ import annotations

import os

from tread_bench.runner.executors.lifeline import RUNNER, end_with_parent

end_with_parent(int(os.environ[RUNNER]))
PID = os.getpid()
