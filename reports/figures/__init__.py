"""The pictures of a run: their specifications, the function that draws them, and the placement of routes."""

from tread_bench.core.processes import import_matplotlib

import_matplotlib()
