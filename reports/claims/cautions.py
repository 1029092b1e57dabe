"""What a reader must know before comparing any figures of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from tread_bench.core.stored.conditions import Conditions, all_of, spread
from tread_bench.core.stored.records import Record
from tread_bench.reports.rows import requested
from tread_bench.reports.rows.row import Row, by_key
from tread_bench.reports.text.sentences import say

TOLERANCE = 0.05  # of 1, for the whole interval of the control's ratio
DATA_WAIT = 0.05  # share of the training loop in which the device waits for a batch


def of_smoke_run(stand_ins: Sequence[str]) -> str:
    """Return what a smoke run's figures mean; `stand_ins` are what of it is random, in place of missing files."""
    return say("cautions", "smoke_run", stand_ins=stand_ins)


def unfinished(records: Sequence[Record], planned: int, missing: int, are_timed: bool) -> str:
    """Return a caution where cells of the run, or their speed, have no result yet; "" as all of these where not."""
    trained = [record for record in records if record.status == "done" and not requested.is_evaluated_only(record)]
    untimed = sum(record.timing is None for record in trained) if are_timed else 0
    return say("cautions", "unfinished", missing=missing, planned=planned, untimed=untimed, has_some=bool(records))


def mixed_conditions(records: Sequence[Record]) -> str:
    """Return a caution that rows may not be comparable, where their cells were not made under the same conditions."""
    conditions: list[Conditions] = []
    for record in records:
        if record.conditions.stated():
            conditions.extend(all_of(record.conditions))
    return say("cautions", "mixed_conditions", mixed=spread(conditions))


def mixed_data(records: Sequence[Record]) -> str:
    """Return a caution that rows may not be comparable, where cells read different contents of a file."""
    contents: dict[str, set[str]] = {}
    for record in records:
        for path, file in record.data_files.items():
            contents.setdefault(path, set()).update({file.sha256} - {""})
    return say("cautions", "mixed_data", paths=sorted(path for path, found in contents.items() if len(found) > 1))


def disturbed_timing(rows: Sequence[Row]) -> str:
    """Return a caution where a dense step, timed against itself, was not shown to be equally fast."""
    controls = []
    for row in rows:
        if not row.is_dense or row.is_smoke or row.speedup is None:
            continue
        _, low, high = row.speedup
        if low < 1 - TOLERANCE or high > 1 + TOLERANCE:
            controls.append(row)
    return say("cautions", "disturbed_timing", controls=controls, tolerance=TOLERANCE)


def not_finite(records: Sequence[Record]) -> str:
    """Return a caution on FIDs that are infinite or NaN."""
    found = []
    for record in records:
        for evaluation in record.evaluations:
            if evaluation.fid is not None and not math.isfinite(evaluation.fid):
                found.append(f"{record.row} seed {record.seed} at {evaluation.iteration:,} ({evaluation.fid})")
    return say("cautions", "not_finite", fids=found)


def without_logarithm(rows: Sequence[Row]) -> str:
    """Return a caution on rows with an FID of 0 or less."""
    found = [row.label for row in rows if any(fid <= 0 for fid in row.scores.get("fid", {}).values())]
    return say("cautions", "without_logarithm", rows=found)


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
            messages.append(say("cautions", "lower_over_other_seeds", rows=lower, best=best.label))
    return messages


def _mean_fid(row: Row) -> float:
    """Infinite for a row that is not ranked."""
    return row.fid.mean if row.fid and not row.is_evaluated_by_teacher else math.inf


def decaying(rows: Sequence[Row]) -> str:
    """Return a caution where a learning rate falls to zero, so that only the ends of trainings are compared."""
    return say("cautions", "decaying", rows=[row.label for row in rows if row.done and requested.decay(row.first)])


def optimizers(rows: Sequence[Row]) -> str:
    """Return a caution where rows are trained with different optimisers."""
    trained = [row for row in rows if row.done and not requested.is_evaluated_only(row.first)]
    found = by_key(trained, lambda row: requested.optimizer(row.first))
    labels = {name: [row.label for row in members] for name, members in found.items()}
    return say("cautions", "optimizers", rows=labels) if len(found) > 1 else ""


def starved(rows: Sequence[Row]) -> str:
    """Return a caution where training waits for its data, which no figure of speed includes."""
    shares = {row.label: row.timing("data_wait_share") or 0.0 for row in rows}
    return say("cautions", "starved", shares={label: share for label, share in shares.items() if share > DATA_WAIT})


def evaluated_by_teacher(rows: Sequence[Row]) -> str:
    """Return a caution where the network that measures a row's FID was also its teacher."""
    return say("cautions", "evaluated_by_teacher", rows=[row.label for row in rows if row.is_evaluated_by_teacher])
