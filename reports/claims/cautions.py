"""What a reader must know before comparing any figures of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from tread_bench.core.stored.conditions import Conditions, all_of, spread
from tread_bench.core.stored.records import Record
from tread_bench.reports.rows.row import Row
from tread_bench.reports.text.numbers import names, number

TOLERANCE = 0.05  # of 1, for the whole interval of the control's ratio
SMOKE_RUN = (
    "Every cell was cut down to a few iterations and samples, to show that everything works. Its figures say nothing "
    "about quality or speed: nothing is ranked, and there is no verdict."
)
DATA_WAIT = 0.05  # share of the training loop in which the device waits for a batch


def of_smoke_run(stand_ins: Sequence[str]) -> str:
    """Return what a smoke run's figures mean; `stand_ins` are what of it is random, in place of missing files."""
    if not stand_ins:
        return SMOKE_RUN
    return f"{SMOKE_RUN} Files were missing, and what stands in for them is random: {', '.join(stand_ins)}."


def mixed_conditions(records: Sequence[Record]) -> list[str]:
    """Return a caution that rows may not be comparable, where their cells were not made under the same conditions."""
    conditions: list[Conditions] = []
    for record in records:
        if record.conditions.stated():
            conditions.extend(all_of(record.conditions))
    mixed = spread(conditions)
    if not mixed:
        return []
    values = "; ".join(f"{name}: {' or '.join(values)}" for name, values in mixed.items())
    return [f"the cells were not all made under the same conditions, which can change figures by itself ({values})."]


def mixed_data(records: Sequence[Record]) -> list[str]:
    """Return a caution that rows may not be comparable, where cells read different contents of a file."""
    contents: dict[str, set[str]] = {}
    for record in records:
        for path, file in record.data_files.items():
            contents.setdefault(path, set()).update({file.sha256} - {""})
    mixed = sorted(path for path, found in contents.items() if len(found) > 1)
    if not mixed:
        return []
    return [f"the cells did not all read the same data: {names(mixed)} had different contents for some of them."]


def disturbed_timing(rows: Sequence[Row]) -> list[str]:
    """Return a caution where a dense step, timed against itself, was not shown to be equally fast."""
    controls = []
    for row in rows:
        if not row.is_dense or row.is_smoke or row.speedup is None:
            continue
        ratio, low, high = row.speedup
        if low < 1 - TOLERANCE or high > 1 + TOLERANCE:
            controls.append(f"{row.label} {number(ratio)} ({number(low)} to {number(high)})")
    if not controls:
        return []
    return [
        f"a dense step that was timed against itself should be as fast to within {100 * TOLERANCE:.0f} %, with its "
        f"whole 95 % interval, and was not: {names(controls)}. Something else used the machine, or too few steps were "
        "timed, so the speeds measured here are unreliable."
    ]


def unusable_fids(records: Sequence[Record], rows: Sequence[Row]) -> list[str]:
    """FIDs that cannot be averaged, and those that have no logarithm."""
    # FIDs that are infinite or NaN.
    not_finite = []
    for record in records:
        for evaluation in record.evaluations:
            if evaluation.fid is not None and not math.isfinite(evaluation.fid):
                not_finite.append(f"{record.row} seed {record.seed} at {evaluation.iteration:,} ({evaluation.fid})")

    # Rows with an FID of 0 or less.
    without_logarithm = []
    for row in rows:
        if any(fid <= 0 for fid in row.scores.get("fid", {}).values()):
            without_logarithm.append(row.label)

    messages = []
    if not_finite:
        messages.append(f"FIDs that are not finite are left out of all means and comparisons: {names(not_finite)}.")
    if without_logarithm:
        messages.append(
            f"an FID of {names(without_logarithm)} is 0 or less, which can only come from rounding: in that table FIDs "
            "are compared directly, not by their logarithms."
        )
    return messages


def lower_over_other_seeds(rows: Sequence[Row]) -> list[str]:
    """Return a caution where a mean is the lowest of its table only because a seed is missing."""
    messages = []
    for _, members in groupby(rows, lambda row: row.group):
        group = list(members)
        best = next((row for row in group if row.is_lowest_fid), None)
        if best is None:
            continue
        lower = [row.label for row in group if _mean_fid(row) < _mean_fid(best)]
        if lower:
            messages.append(
                f"seeds are missing: the mean FID of {names(lower)} is below that of {best.label}, but adjusted for "
                "them it is above."
            )
    return messages


def _mean_fid(row: Row) -> float:
    """Infinite for a row that is not ranked."""
    return row.fid.mean if row.fid and not row.is_evaluated_by_teacher else math.inf


def starved(rows: Sequence[Row]) -> list[str]:
    """Return a caution where training waits for its data, which no figure of speed includes."""
    shares = {row.label: row.timing("data_wait_share") or 0.0 for row in rows}
    shares = {label: share for label, share in shares.items() if share > DATA_WAIT}
    if not shares:
        return []
    return [
        f"the device waits for batches in up to {max(shares.values()):.0%} of the training loop of {names(shares)}: "
        "training takes that much longer than the speeds and seconds shown, which are of steps whose batch is ready. "
        "Raise compute.data_workers, or put the data on a faster disk."
    ]


def evaluated_by_teacher(rows: Sequence[Row]) -> list[str]:
    """Return a caution where the network that measures a row's FID was also its teacher."""
    taught = [row.label for row in rows if row.is_evaluated_by_teacher]
    if not taught:
        return []
    was, its = ("was", "its") if len(taught) == 1 else ("were", "their")
    return [
        f"{names(taught)} {was} trained towards features of the network that FID and KID are measured with, which "
        f"favours {'it' if len(taught) == 1 else 'them'}: not ranked here. Read {its} validation loss instead."
    ]
