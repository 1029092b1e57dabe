"""`features`: train a feature network for a suite's data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from tread_bench.core.stored.destinations import refuse_taken
from tread_bench.core.stored.outputs import try_file
from tread_bench.services.display import counted
from tread_bench.suite.data import data_of_suite


def train_features(
    suite: str,
    overrides: list[str],
    out: Path,
    iterations: int | None,
    seed: int,
    max_width: int | None = None,
    data_root: Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Train it, with progress on stderr; return what was trained, with its held-out accuracy.

    Raises:
        UserError: the suite's cells differ in data; `out` must not be written.
    """
    refuse_taken("--out", out, overwrite)
    try_file("--out", out)
    data = data_of_suite(suite, overrides, data_root)
    from tread_bench.measure.quality.feature_training import MAX_WIDTH, train_and_save

    labelled, width = data.family.labelled(data), max_width or MAX_WIDTH
    with counted(Console(stderr=True), unit="iterations") as report:
        return train_and_save(labelled, out, iterations, seed, suite, width, overwrite, report)
