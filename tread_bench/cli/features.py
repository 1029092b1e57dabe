"""`features`: train a feature network for a suite's data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tread_bench.core.errors import UserError
from tread_bench.core.outputs import refuse_foreign, try_file
from tread_bench.suite.files import Look
from tread_bench.suite.load import find_suite, load_plan


def train_features(
    suite: str, overrides: list[str], out: Path, iterations: int, seed: int, data_root: Path | None = None
) -> dict[str, Any]:
    """What was trained, with its held-out accuracy.

    Raises:
        UserError: the suite's cells differ in data; `out` cannot be written, or is a file that is not this program's.
    """
    refuse_foreign("--out", [out])
    try_file("--out", out)
    without_network = [*overrides, "metrics.generate=false"]
    plan = load_plan(find_suite(suite), without_network, data_root=data_root, look=Look.HEADERS)
    choices = {cell.cell.data.model_dump_json(): cell.cell.data for cell in plan.cells}
    if len(choices) > 1:
        raise UserError(
            f"{suite} uses {len(choices)} data sources; a feature network is trained on one: choose it with --set"
        )
    from tread_bench.measure.quality.feature_training import train_and_save

    return train_and_save(next(iter(choices.values())), out, iterations, seed, suite=suite)
