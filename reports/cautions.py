"""What a reader must know before any figure of a run is compared with another."""

from __future__ import annotations

from collections.abc import Sequence

from reports.comparison import Row
from reports.numbers import names, number
from tread_bench.conditions import all_of, spread
from tread_bench.records import Record

TOLERANCE = 0.05  # of the control's ratio


def mixed_conditions(records: Sequence[Record]) -> list[str]:
    """That rows do not compare as they stand, where their cells were not made under the same conditions."""
    mixed = spread([one for record in records if record.conditions for one in all_of(record.conditions)])
    if not mixed:
        return []
    told = "; ".join(f"{name}: {' or '.join(values)}" for name, values in mixed.items())
    return [f"the cells were not all made under the same conditions, which can change figures by itself ({told})."]


def disturbed_timing(rows: Sequence[Row]) -> list[str]:
    """That a dense step was not as fast as itself."""
    controls = [(row, *row.speedup) for row in rows if row.is_dense and row.speedup]
    return [
        f"{row.label}, timed beside itself, came out {number(ratio)} times as fast (95 % interval {number(low)} to "
        f"{number(high)}): something else used the machine, and the speeds measured here say little."
        for row, ratio, low, high in controls
        if abs(ratio - 1) > TOLERANCE and not low <= 1 <= high
    ]


def judged_by_teacher(rows: Sequence[Row]) -> list[str]:
    """That the judge of some rows has taught them."""
    taught = [row.label for row in rows if row.is_judged_by_teacher]
    if not taught:
        return []
    was, its = ("was", "its") if len(taught) == 1 else ("were", "their")
    return [
        f"{names(taught)} {was} trained towards features of the network that FID and KID are measured with, which "
        f"favours {'it' if len(taught) == 1 else 'them'}: not ranked here. Read {its} validation loss instead."
    ]
