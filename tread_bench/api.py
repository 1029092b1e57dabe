"""Runs from Python: `run` brings a run up to date, `load` reads one."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tread_bench.core.errors import UserError
from tread_bench.core.names import unknown
from tread_bench.core.problems import shortened
from tread_bench.core.stored.documents import RunPlan
from tread_bench.core.stored.records import Record
from tread_bench.runner.options import Options
from tread_bench.runner.sources import read_run
from tread_bench.services.choices import Device, Executor
from tread_bench.services.decisions import decisions_of, hypothesis_of

if TYPE_CHECKING:
    import pandas as pd

    from tread_bench.reports.study import Study


@dataclass(frozen=True, kw_only=True, repr=False)
class Results:
    """What a run has left so far.

    Args:
        source: the run folder, or the file that `tread-bench report --export` wrote.
        plan: what was requested, under which numerical choices.
        records: one per cell that has ended, with all its figures.
        unreadable: why other records cannot be read, by cell.
    """

    source: Path
    plan: RunPlan
    records: Sequence[Record]
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def page(self) -> Path | None:
        """The page of a run folder; None where it is not drawn, as of an export: `tread-bench report` draws it."""
        page = self.source / "index.html"
        return page if page.is_file() else None

    @property
    def decision(self) -> list[dict[str, Any]]:
        """Whether to route, for each comparison of routes: the sentence, the choice, and the three tests behind it.

        docs/methods/decision.md defines them. Empty for a smoke run and for runs without routes.
        """
        return decisions_of(self._study, self.plan.planned)

    @property
    def hypothesis(self) -> dict[str, Any] | None:
        """What was stated before the run, with its answer; None where nothing was, and for a smoke run.

        docs/methods/onset.md has the rule.
        """
        return hypothesis_of(self._study, self.plan.planned)

    def __repr__(self) -> str:
        """Return where the run is, how much of it is done, and its decisions."""
        sentences = [decision["sentence"] for decision in self.decision]
        return "\n".join([f"{self.source}: {len(self.records)} of {self.plan.planned} cells", *sentences])

    def _repr_html_(self) -> str:
        """Return the decisions and the main columns of the comparison, as a notebook shows them."""
        from tread_bench.reports.comparison import short_tables
        from tread_bench.reports.page.document import as_html

        sentences = [decision["sentence"] for decision in self.decision]
        return as_html("notebook.html.j2", sentences=sentences, tables=short_tables(self._study.rows))

    @cached_property
    def _study(self) -> Study:
        """What the records say, worked out once."""
        from tread_bench.reports.study import Study

        return Study(self.records, self.plan.smoke, self.plan.registered)

    def frame(self) -> pd.DataFrame:
        """Return one row per cell and evaluated iteration, with the columns of results.csv.

        Units and definitions are those of docs/methods/results-csv.md. Missing values are NA; a cell without an
        evaluation, such as one that failed, has one row.
        """
        return self._study.frame.copy()

    def rows(self) -> pd.DataFrame:
        """Return the frame summarised by row: means over seeds at the row's last iteration, with 95 % intervals.

        A metric has three columns, such as fid, fid_low and fid_high; costs and speeds are those of the row.
        """
        from tread_bench.reports.frame import rows_frame

        return rows_frame(self._study.frame)

    def differences(self) -> pd.DataFrame:
        """Return each row minus its reference, a line for each metric and way of comparing.

        `at` is "equal training MACs", "equal measured time", "equal iterations" or "the reference's end", where it is a
        ratio of costs; `difference` is a mean over `seeds` with the ends `low` and `high` of its unadjusted 95 %
        interval; `evaluated` is False where a curve was read between its points.
        """
        from tread_bench.reports.differences import differences

        return differences(self._study.frame)


def load(source: str | Path) -> Results:
    """Read the results of a run, finished or not; nothing is changed there.

    Args:
        source: a run folder, or a file that `tread-bench report --export` wrote.

    Raises:
        UserError: it is neither, or its plan cannot be read. Records that cannot be read are left out with a warning.
    """
    return _results(Path(source))


def run(
    suite: str | Path | Mapping[str, Any],
    /,
    *,
    out: str | Path | None = None,
    rows: Sequence[str] = (),
    device: Device = "auto",
    executor: Executor = "local",
    workers: int | None = None,
    smoke: bool = False,
    retry_failed: bool = False,
    data_root: str | Path | None = None,
    **overrides: Any,
) -> Results:
    """Train and measure what is missing of a suite, write its page, and return its results.

    As `tread-bench run`, whose options the arguments are: progress goes to stderr, and the same call again resumes.
    Cells that fail keep their row, with status "failed" and the reason. Each cell runs in a process of its own.

    Args:
        suite: a suite file, the name of a shipped suite, or a mapping of what a suite file holds: its relative paths
            begin in the working directory, and mistakes name its keys.
        overrides: keys as for `--set`: `seeds=2`, `training={"iterations": 100}`, `**{"training.iterations": 100}`.

    Raises:
        SuiteError: all mistakes in the suite and the overrides.
        UserError: the folder cannot be used, this machine cannot run it, or an argument is wrong.
    """
    from tread_bench.services.run import bring_up_to_date

    # The options of the command line, which checks them there.
    problems = [
        unknown(name, value, known)
        for name, value, known in (("device", device, get_args(Device)), ("executor", executor, get_args(Executor)))
        if value not in known
    ]
    if workers is not None and workers < 1:
        problems.append(f"workers {workers}: must be at least 1, the number of cells trained at a time")
    settings = [f"{key}={text}" for key, text in _as_yaml(overrides, problems).items()]
    named: str | dict[str, Any]
    if isinstance(suite, Mapping):
        named = {key: json.loads(text) for key, text in _as_yaml(suite, problems).items()}
    else:
        named = str(suite)
    if problems:
        raise UserError("\n".join(problems))
    chosen = (rows,) if isinstance(rows, str) else tuple(rows)
    options = Options(device=device, rows=chosen, executor=executor, workers=workers, retry_failed=retry_failed)

    # Run what is missing, and read everything that is there.
    root = Path(data_root) if data_root is not None else None
    done = bring_up_to_date(named, settings, Path(out) if out is not None else None, smoke, options, root)
    return _results(done.root)


def _results(source: Path) -> Results:
    """Those of a run; warnings name the line that called `load` or `run`."""
    found = read_run(source)
    for reason in found.unreadable.values():
        warnings.warn(f"left out: {reason}", stacklevel=3)
    return Results(source=found.path, plan=found.plan, records=found.records, unreadable=found.unreadable)


def _as_yaml(values: Mapping[str, Any], problems: list[str]) -> dict[str, str]:
    """Each value as YAML, of which JSON is a part; those that have no such form become problems."""
    written = {}
    for key, value in values.items():
        try:
            written[str(key)] = json.dumps(value, ensure_ascii=False, default=_plain)
        except (TypeError, ValueError):
            rule = "must be a number, a text, a path, None, or a list or mapping of these"
            problems.append(f"{key} {shortened(value)}: {rule}")
    return written


def _plain(value: Any) -> Any:
    """What JSON can write of numbers and arrays of NumPy, pandas and torch, or of a path. Raises TypeError."""
    return value.tolist() if hasattr(value, "tolist") else os.fspath(value)
