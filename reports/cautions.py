"""What a reader must know before comparing any figures of a run. A caution is "" where there is nothing to say."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tread_bench.core.stored.conditions import Conditions, all_of, spread
from tread_bench.core.stored.records import Record
from tread_bench.reports import requested
from tread_bench.reports.row import Row, by_key
from tread_bench.reports.text.numbers import names, number, plural

TOLERANCE = 0.05  # of 1, for the whole interval of the control's ratio
DATA_WAIT = 0.05  # share of the training loop in which the device waits for a batch


def of_smoke_run(stand_ins: Sequence[str]) -> str:
    """Return what a smoke run's figures mean; `stand_ins` are what of it is random, in place of missing files."""
    missing = ""
    if stand_ins:
        missing = f" Files were missing, and what stands in for them is random: {', '.join(stand_ins)}."
    return (
        "Every cell was cut down to a few iterations and samples, to show that everything works. Its figures say "
        f"nothing about quality or speed: nothing is ranked, and there is no decision.{missing}"
    )


def unfinished(records: Sequence[Record], planned: int, missing: int, are_timed: bool) -> str:
    """Return a caution where cells of the run, or their speed, have no result yet."""
    trained = [record for record in records if record.status == "done" and not requested.is_evaluated_only(record)]
    untimed = sum(record.timing is None for record in trained) if are_timed else 0
    parts = []
    if missing:
        parts.append(f"{missing:,} of {planned:,} planned cells have no result yet (listed below)")
    if untimed:
        parts.append(f"the speed of {plural(untimed, 'cell')} is not measured yet")
    if not parts:
        return ""
    covered = ": figures and decisions cover only the existing results" if records else ""
    return f"{'; '.join(parts)}{covered}."


def mixed_conditions(records: Sequence[Record]) -> str:
    """Return a caution that rows may not be comparable, where their cells were not made under the same conditions."""
    conditions: list[Conditions] = []
    for record in records:
        if record.conditions.stated():
            conditions.extend(all_of(record.conditions))
    each = "; ".join(f"{name}: {' or '.join(map(str, values))}" for name, values in spread(conditions).items())
    if not each:
        return ""
    return f"the cells were not all made under the same conditions, which can change figures by itself ({each})."


def mixed_data(records: Sequence[Record]) -> str:
    """Return a caution that rows may not be comparable, where cells read different contents of a file."""
    contents: dict[str, set[str]] = {}
    for record in records:
        for path, file in record.data_files.items():
            contents.setdefault(path, set()).update({file.sha256} - {""})
    paths = sorted(path for path, found in contents.items() if len(found) > 1)
    if not paths:
        return ""
    return f"the cells did not all read the same data: {names(paths)} had different contents for some of them."


def disturbed_timing(rows: Sequence[Row]) -> str:
    """Return a caution where a dense step, timed against itself, was not shown to be equally fast."""
    each = []
    for row in rows:
        if not row.is_dense or row.is_smoke or row.speedup is None:
            continue
        ratio, low, high = row.speedup
        if low < 1 - TOLERANCE or high > 1 + TOLERANCE:
            each.append(f"{row.name} {number(ratio)} ({number(low)} to {number(high)})")
    if not each:
        return ""
    return (
        f"a dense step that was timed against itself should be as fast to within {100 * TOLERANCE:.0f} %, with its "
        f"whole 95 % interval, and was not: {names(each)}. Something else used the machine, or too few steps were "
        "timed, so the speeds measured here are unreliable."
    )


def not_finite(records: Sequence[Record]) -> str:
    """Return a caution on FIDs that are infinite or NaN."""
    found = []
    for record in records:
        for evaluation in record.evaluations:
            if evaluation.fid is not None and not math.isfinite(evaluation.fid):
                found.append(f"{record.row} seed {record.seed} at {evaluation.iteration:,} ({evaluation.fid})")
    if not found:
        return ""
    return f"FIDs that are not finite are left out of all means and comparisons: {names(found)}."


def decaying(rows: Sequence[Row]) -> str:
    """Return a caution where a learning rate falls to zero, so that only the ends of trainings are compared."""
    found = [row.name for row in rows if row.done and requested.decay(row.first)]
    if not found:
        return ""
    return (
        f"the learning rate of {names(found)} falls to zero over the training: only the end enters a comparison. A "
        "figure at an earlier iteration is of a rate that has not fallen yet, not what a shorter training would have, "
        "and rows of different lengths are compared only at their ends, where these cost the same."
    )


def optimizers(rows: Sequence[Row]) -> str:
    """Return a caution where rows are trained with different optimisers."""
    trained = [row for row in rows if row.done and not requested.is_evaluated_only(row.first)]
    found = by_key(trained, lambda row: requested.optimizer(row.first))
    if len(found) < 2:
        return ""
    each = "; ".join(f"{name} trains {names(row.name for row in members)}" for name, members in found.items())
    return f"rows have different optimisers, so a difference between two of them is not of their routes alone: {each}."


def starved(rows: Sequence[Row]) -> str:
    """Return a caution where training waits for its data, which no figure of speed includes."""
    shares = {row.name: row.timing("data_wait_share") or 0.0 for row in rows}
    found = {label: share for label, share in shares.items() if share > DATA_WAIT}
    if not found:
        return ""
    return (
        f"the device waits for batches in up to {max(found.values()):.0%} of the training loop of {names(found)}: "
        "training takes that much longer than the speeds and seconds shown, which are of steps whose batch is ready. "
        "Raise compute.data_workers, or put the data on a faster disk."
    )


def evaluated_by_teacher(rows: Sequence[Row]) -> str:
    """Return a caution where the network that measures a row's FID was also its teacher."""
    found = [row.name for row in rows if row.is_evaluated_by_teacher]
    if not found:
        return ""
    was, it, its = ("was", "it", "its") if len(found) == 1 else ("were", "them", "their")
    return (
        f"{names(found)} {was} trained towards features of the network that FID and KID are measured with, which "
        f"favours {it}: not ranked here. Read {its} validation loss instead."
    )
