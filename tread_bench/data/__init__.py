"""Images to train on and to judge by: `open_data(choice)`."""

from __future__ import annotations

from tread_bench.data.source import DataSource, ImageSet, Pictures, Samples, flip, from_uint8, open_data, to_uint8

__all__ = ["DataSource", "ImageSet", "Pictures", "Samples", "flip", "from_uint8", "open_data", "to_uint8"]
