"""`run`: a suite to its comparison."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tread_bench.core.errors import UserError
from tread_bench.core.stored.records import Record, of_study
from tread_bench.runner.folder import RunFolder, disk_errors_reported
from tread_bench.runner.options import Call, Options, refuse
from tread_bench.runner.runner import Result, run
from tread_bench.runner.stand_in import smoke_with_stand_ins
from tread_bench.services.display import make_display, note
from tread_bench.services.report import Drawn, stale, write_report
from tread_bench.suite.files import Look
from tread_bench.suite.load import find_suite, load_plan
from tread_bench.suite.plan import Plan

if TYPE_CHECKING:
    from tread_bench.reports.study import Study


@dataclass(frozen=True, slots=True)
class Done:
    """A run brought up to date.

    `plan` has the learning rates that were chosen, where the suite chooses them.
    `stale`: derived files that were missing or older than the records, and were made again.
    `drawn`: the report, if it was.
    """

    plan: Plan
    root: Path
    options: Options
    result: Result
    stale: list[str]
    drawn: Drawn | None

    @property
    def study(self) -> Study:
        """What the records say: that of the page, where it was drawn."""
        from tread_bench.reports.study import Study

        if self.drawn:
            return self.drawn.study
        return Study(self.result.records, self.plan.is_smoke, self.plan.registered)

    @property
    def failed(self) -> list[Record]:
        """Records of the requested cells of the study that failed; a learning rate that fails is not chosen."""
        requested = {cell.id for cell in self.result.cells}
        ended = [record for record in of_study(self.result.records) if record.cell in requested]
        return [record for record in ended if record.status == "failed"]


def bring_up_to_date(
    suite: str | Mapping[str, Any],
    overrides: list[str],
    out: Path | None,
    smoke: bool,
    options: Options,
    data_root: Path | None = None,
    agree: Callable[[str], None] = refuse,
) -> Done:
    """Run what is missing and, unless it is a part of the run, draw the page if it is not of these records.

    Args:
        suite: a file, a shipped suite's name, or what a file would hold, of plain data.
        agree: called with what `options.fresh` will remove; raises where it must stay, as by default.

    Raises:
        UserError: the suite, the folder or the machine cannot be used.
    """
    # How it is started.
    started = os.environ.get("WORLD_SIZE", "1")
    if "LOCAL_RANK" in os.environ and started != "1":
        raise UserError(
            f"a launcher (torchrun, accelerate launch) started `tread-bench run` {started} times, and each would start "
            "the whole run: start it once, without the launcher; it trains a cell on each GPU, and with "
            "limits.processes_per_cell a cell on several"
        )
    if options.track and find_spec("tensorboard") is None:
        raise UserError("--track tensorboard needs TensorBoard: pip install 'tread-bench[track]'")

    # Every mistake at once: a smoke run, too, is of a suite that could be run if its files were there.
    source = suite if isinstance(suite, Mapping) else find_suite(suite)
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else json.dumps(source, indent=2)
    console = Console(stderr=True)
    # All samples are read where cells run: a login node is no place for it.
    look = Look.CONTENTS if options.runs_here else Look.NETWORKS
    with console.status("checking the suite and its data"):
        plan = load_plan(source, overrides, data_root=data_root, look=look, allows_missing=smoke)
    plan.chosen(options.rows)  # or say which rows there are, before a stand-in is written
    root = out or Path("runs") / (f"{plan.suite.name}-smoke" if smoke else plan.suite.name)
    folder = RunFolder(root.absolute())
    if smoke:
        plan = _smoke_plan(plan, folder, options)

    result = run(plan, Call(text, folder, options, make_display(console), agree))

    # Draw the page.
    outdated = stale(root) if options.shard is None else []
    drawn = None
    if outdated or (result.finished_now and options.shard is None):
        drawn = write_report([root])
    return Done(result.plan, root, options, result, outdated, drawn)


def _smoke_plan(whole: Plan, folder: RunFolder, options: Options) -> Plan:
    """The plan, shortened, with random data in place of files that are missing. Raises UserError."""
    if not whole.missing:
        return whole.as_smoke()
    folder.refuse_foreign()
    with folder.lock(str(options.shard or "")), folder.turn(), disk_errors_reported(folder.root):
        plan = smoke_with_stand_ins(whole, folder)
    note("\n".join(["missing:", *map(str, whole.missing)]))
    note(f"random in this smoke run, in place of what is missing: {', '.join(plan.stand_ins)}")
    return plan
