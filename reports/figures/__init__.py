"""The pictures of a run, one per file, and what they share."""

from tread_bench.core.environment import import_matplotlib

import_matplotlib()
