"""Opens the data source that a suite names."""

from __future__ import annotations

from pathlib import Path

from tread_bench.core.config.data import DataChoice
from tread_bench.data.source import DataSource


def open_data(choice: DataChoice, decoded: Path | None = None) -> DataSource:
    """Open a data source. Raises UserError with file, row and rule where the data do not fit.

    Args:
        decoded: a run's folder of decoded images, for sources that need decoding; None: nothing is kept.
    """
    if choice.name == "digits":
        from tread_bench.data.digits import read_digits

        return read_digits()
    if choice.name == "random_latents":
        from tread_bench.data.random_latents import draw_latents

        return draw_latents(choice)
    if choice.name == "latents":
        from tread_bench.data.latents import open_latents

        return open_latents(choice)
    from tread_bench.data.parquet import read_parquet

    return read_parquet(choice, decoded)
