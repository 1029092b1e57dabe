"""Progress of what is counted, such as images, on stderr: bars with times in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tread_bench.core.progress import ReportProgress
from tread_bench.services.display import QUIET_S, duration


@contextmanager
def counted(console: Console, device: str = "", unit: str = "") -> Iterator[ReportProgress]:
    """What is to be called with each work's progress.

    Args:
        device: where it is done, if all of it is done there.
        unit: follows the first count of a work.
    """
    on = f" on {device}" if device else ""
    if not console.is_terminal:
        yield Lines(on, lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True), unit)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def report(name: str, done: int, of: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(f"{name}{on}")
            bars.update(tasks[name], completed=done, total=of)

        yield report


class Lines:
    """A line when a work begins and ends, and now and then one between."""

    def __init__(
        self,
        on: str,
        write: Callable[[str], object],
        unit: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on, self.write, self.unit, self.clock = on, write, unit, clock
        self.name = ""

    def __call__(self, name: str, done: int, of: int) -> None:
        # The work begins; what an earlier start did is done.
        now = self.clock()
        if name != self.name:
            self.name = name
            self.kept, self.since, self.spoke = done, now, now
            self.write(f"{name}{self.on}: {done:,} of {of:,} {self.unit}".rstrip())

        # The work continues or ends.
        elif done > self.kept and (done == of or now - self.spoke >= QUIET_S):
            self.spoke = now
            elapsed = now - self.since
            left = elapsed * (of - done) / (done - self.kept)
            rest = f", about {duration(left)} left" if done < of else ""
            self.write(f"{name}: {done:,} of {of:,}, {duration(elapsed)} elapsed{rest}")
