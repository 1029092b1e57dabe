"""`ci history`: many runs, and where their figures changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tread_bench.core.stored.destinations import claim_folders
from tread_bench.regression.history.runs import LeftOut, Run, read_runs
from tread_bench.regression.history.series import Series, series_of
from tread_bench.reports.page.history import render
from tread_bench.runner.folder import disk_errors_reported
from tread_bench.services.display import note


@dataclass(frozen=True, slots=True)
class History:
    """Runs in the order of their commits, what could not be read, and their figures as series."""

    runs: Sequence[Run]
    left_out: Sequence[LeftOut]
    series: Sequence[Series]

    def as_json(self) -> dict[str, Any]:
        """Return its JSON form; `runs` of points and changes are places in the list of runs."""
        return {
            "runs": [_run(run) for run in self.runs],
            "left_out": [{"path": str(left.path), "reason": left.reason} for left in self.left_out],
            "series": [_series(one) for one in self.series],
        }


def history_of(folders: Sequence[Path], out: Path, tables: Path | None) -> History:
    """Read the runs and write their page. Raises UserError."""
    # The runs, and where each series changes, which needs a package that may be missing.
    runs, left_out = read_runs(folders)
    series = series_of(runs)
    for one in series:
        one.segments  # noqa: B018  (kept there)

    # The page.
    claim_folders("tread-bench ci history", {"--out": out, "--tables": tables})
    for left in left_out:
        note(f"left out: {left.reason}")
    with disk_errors_reported(out):
        render(runs, series, left_out, out, tables)
    return History(runs, left_out, series)


def _run(run: Run) -> dict[str, Any]:
    return {
        "path": str(run.path),
        "suite": run.suite,
        "label": run.label,
        "commit": run.commit or None,
        "committed": run.committed and run.committed.isoformat(),
        "changed": run.is_changed,
        "version": run.version,
        "started": run.started.isoformat(),
    }


def _series(series: Series) -> dict[str, Any]:
    return {
        "suite": series.suite,
        "row": series.row,
        "metric": series.metric.name,
        "unit": series.metric.unit,
        "apart": series.apart,
        "runs": series.runs,
        "values": series.values,
        "enough_runs": series.is_enough,
        "changes": [change._asdict() for change in series.changes],
    }
