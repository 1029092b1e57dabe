"""What a reader must know before comparing any figures of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from tread_bench.core.stored.conditions import Conditions, decisive
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


def of_records(records: Sequence[Record], planned: int, missing: int, are_timed: bool) -> Iterator[str]:
    """Yield what makes figures of cells not comparable, the most serious first.

    Args:
        planned: cells of the run, of which `missing` have no result.
        are_timed: whether the run measures speed.
    """
    # Cells, or their speed, have no result yet.
    trained = [record for record in records if record.status == "done" and not requested.is_evaluated_only(record)]
    untimed = sum(record.timing is None for record in trained) if are_timed else 0
    parts = []
    if missing:
        parts.append(f"{missing:,} of {planned:,} planned cells have no result yet (listed below)")
    if untimed:
        parts.append(f"the speed of {plural(untimed, 'cell')} is not measured yet")
    if parts:
        covered = ": figures and decisions cover only the existing results" if records else ""
        yield f"{'; '.join(parts)}{covered}."

    # Cells were not made under the same conditions, or read different contents of a file.
    conditions: list[Conditions] = []
    contents: dict[str, set[str]] = {}
    for record in records:
        if record.conditions.stated():
            conditions.extend(all_of(record.conditions))
        for path, file in record.data_files.items():
            contents.setdefault(path, set()).update({file.sha256} - {""})
    each = "; ".join(f"{name}: {' or '.join(map(str, values))}" for name, values in spread(conditions).items())
    if each:
        yield f"the cells were not all made under the same conditions, which can change figures by itself ({each})."
    if paths := sorted(path for path, found in contents.items() if len(found) > 1):
        yield f"the cells did not all read the same data: {names(paths)} had different contents for some of them."

    # FIDs are infinite or NaN.
    infinite = []
    for record in records:
        for evaluation in record.evaluations:
            if evaluation.fid is not None and not math.isfinite(evaluation.fid):
                infinite.append(f"{record.row} seed {record.seed} at {evaluation.iteration:,} ({evaluation.fid})")
    if infinite:
        yield f"FIDs that are not finite are left out of all means and comparisons: {names(infinite)}."


def of_rows(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what a reader must know before ranking rows, or believing their speed."""
    # The network that measures a row's FID was also its teacher.
    taught = [row.name for row in rows if row.is_evaluated_by_teacher]
    if taught:
        was, it, its = ("was", "it", "its") if len(taught) == 1 else ("were", "them", "their")
        yield (
            f"{names(taught)} {was} trained towards features of the network that FID and KID are measured with, which "
            f"favours {it}: not ranked here. Read {its} validation loss instead."
        )

    # A dense step, timed against itself, was not shown to be equally fast; training waits for its data, which no
    # figure of speed includes.
    disturbed, waits = [], {}
    for row in rows:
        if row.is_dense and not row.is_smoke and row.speedup is not None:
            ratio, low, high = row.speedup
            if low < 1 - TOLERANCE or high > 1 + TOLERANCE:
                disturbed.append(f"{row.name} {number(ratio)} ({number(low)} to {number(high)})")
        waits[row.name] = row.timing("data_wait_share") or 0.0
    if disturbed:
        yield (
            f"a dense step that was timed against itself should be as fast to within {100 * TOLERANCE:.0f} %, with its "
            f"whole 95 % interval, and was not: {names(disturbed)}. Something else used the machine, or too few steps "
            "were timed, so the speeds measured here are unreliable."
        )
    if starved := [name for name, share in waits.items() if share > DATA_WAIT]:
        yield (
            f"the device waits for batches in up to {max(waits.values()):.0%} of the training loop of "
            f"{names(starved)}: training takes that much longer than the speeds and seconds shown, which are of steps "
            "whose batch is ready. Raise compute.data_workers, or put the data on a faster disk."
        )

    # A learning rate falls to zero, so that only the ends of trainings are compared; optimisers differ.
    if decaying := [row.name for row in rows if row.done and requested.decay(row.first)]:
        yield (
            f"the learning rate of {names(decaying)} falls to zero over the training: only the end enters a "
            "comparison. A figure at an earlier iteration is of a rate that has not fallen yet, not what a shorter "
            "training would have, and rows of different lengths are compared only at their ends, where these cost the "
            "same."
        )
    trained = [row for row in rows if row.done and not requested.is_evaluated_only(row.first)]
    optimizers = by_key(trained, lambda row: requested.optimizer(row.first))
    if len(optimizers) > 1:
        each = "; ".join(f"{name} trains {names(row.name for row in of_it)}" for name, of_it in optimizers.items())
        yield (
            f"rows have different optimisers, so a difference between two of them is not of their routes alone: {each}."
        )


def all_of(conditions: Conditions) -> list[Conditions]:
    """Return a record's conditions, with those of its first steps and of its timing."""
    timed = [conditions.timed_under] if conditions.timed_under else []
    return [conditions, *conditions.begun_under, *timed]


def spread(found: Iterable[Conditions]) -> dict[str, list[str]]:
    """Return every decisive condition that differs within `found`, with its values; cells need not have all of them."""
    values: dict[str, set[str]] = {}
    for one in found:
        for key, value in decisive(one).items():
            values.setdefault(key, set()).add(str(value))
    return {key: sorted(some) for key, some in sorted(values.items()) if len(some) > 1}
