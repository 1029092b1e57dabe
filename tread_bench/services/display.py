"""Progress of a run, or of what is counted, on stderr: bars with times in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
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
from tread_bench.runner.options import Display

QUIET_S = 20.0  # between two lines about work that is still running


def note(message: str) -> None:
    """Print what a reader should know beside the results, on stderr."""
    sys.stderr.write(f"{message}\n")


def make_display(console: Console) -> Display:
    """Bars where the console is a terminal, else lines."""
    return Bars(console) if console.is_terminal else Lines(console.print)


class Lines:
    """A line when a cell ends, and now and then one about running cells."""

    def __init__(self, write: Callable[..., object], clock: Callable[[], float] = time.monotonic) -> None:
        self.write, self.clock = write, clock
        self.labels: Mapping[str, str] = {}
        self.shares: dict[str, float] = {}  # of each cell that has started: how much of it is done

    def note(self, text: str) -> None:
        self._say(text)

    def begin(self, phase: str, labels: Mapping[str, str], at_once: int | None) -> None:
        self.labels, self.shares = labels, {}
        self.since = self.spoke = self.clock()
        if labels:
            self._say(f"{phase}: {len(labels)} to do, {_at_once(at_once)}")

    def started(self, key: str) -> None:
        self.shares.setdefault(key, 0.0)

    def progressed(self, key: str, phase: str, done: int, of: int, loss: float | None) -> None:
        self.shares[key] = min(done / of, 0.999)
        if self.clock() - self.spoke >= QUIET_S:
            self.spoke = self.clock()
            self._say(f"{self.labels[key]}: {phase} {done}/{of}{_loss(loss)}{self._remaining()}")

    def ended(self, key: str, failure: str = "") -> None:
        self.shares[key] = 1.0
        finished = sum(share == 1.0 for share in self.shares.values())
        problem = f": FAILED: {failure}" if failure else ""
        self._say(f"[{finished}/{len(self.labels)}] {self.labels[key]}{problem}{self._remaining()}")

    def end(self) -> None:
        pass

    def _remaining(self) -> str:
        """From the share of all cells that is done; cells are assumed to cost the same."""
        share = sum(self.shares.values()) / len(self.labels)
        if not share:
            return ""
        elapsed = self.clock() - self.since
        return f", {duration(elapsed)} elapsed, about {duration(elapsed * (1 - share) / share)} left"

    def _say(self, text: str) -> None:
        self.write(text, markup=False, highlight=False, soft_wrap=True)


class Bars:
    """One bar over all cells and one for each that runs."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress = _bars(console)

    def note(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False)

    def begin(self, phase: str, labels: Mapping[str, str], at_once: int | None) -> None:
        self.end()
        self.labels, self.bars, self.shares = labels, dict[str, TaskID](), dict[str, float]()
        if labels:
            self.progress = _bars(self.console, TextColumn("{task.fields[news]}", markup=False))
            self.progress.start()
            self.overall = self.progress.add_task(phase, total=float(len(labels)), news=_at_once(at_once))

    def started(self, key: str) -> None:
        if key not in self.bars:
            self.bars[key] = self.progress.add_task(f"  {self.labels[key]}", total=None, news="")

    def progressed(self, key: str, phase: str, done: int, of: int, loss: float | None) -> None:
        self.started(key)
        self.progress.update(self.bars[key], total=of, completed=done, news=f"{phase}{_loss(loss)}")
        self._advance(key, min(done / of, 0.999))

    def ended(self, key: str, failure: str = "") -> None:
        if failure:
            text = f"{self.labels[key]}: FAILED: {failure}"
            self.console.print(text, style="bold red", markup=False, highlight=False)
        if key in self.bars:
            self.progress.remove_task(self.bars.pop(key))
            self._advance(key, 1.0)

    def end(self) -> None:
        if self.progress.live.is_started:  # where it is not, stopping prints an empty line
            self.progress.stop()

    def _advance(self, key: str, share: float) -> None:
        self.shares[key] = share
        self.progress.update(self.overall, completed=round(sum(self.shares.values()), 2))


def _bars(console: Console, *more: TextColumn) -> Progress:
    """Bars with what they are of, how much of it is done, times, and further columns."""
    name = TextColumn("{task.description}", markup=False)
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(name, BarColumn(), MofNCompleteColumn(), *times, *more, console=console)


@contextmanager
def counted(console: Console, device: str = "") -> Iterator[ReportProgress]:
    """What is to be called with each work's progress; `device` is where all of it is done, if that is known."""
    on = f" on {device}" if device else ""
    if not console.is_terminal:
        yield CountedLines(on, lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True))
        return
    with _bars(console) as bars:
        tasks: dict[str, TaskID] = {}

        def report(name: str, done: int, of: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(f"{name}{on}")
            bars.update(tasks[name], completed=done, total=of)

        yield report


class CountedLines:
    """A line when a work begins and ends, and now and then one between."""

    def __init__(self, on: str, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self.on, self.write, self.clock = on, write, clock
        self.name = ""

    def __call__(self, name: str, done: int, of: int) -> None:
        # The work begins; what an earlier start did is done.
        now = self.clock()
        if name != self.name:
            self.name = name
            self.kept, self.since, self.spoke = done, now, now
            self.write(f"{name}{self.on}: {done:,} of {of:,}")

        # The work continues or ends.
        elif done > self.kept and (done == of or now - self.spoke >= QUIET_S):
            self.spoke = now
            left = (now - self.since) * (of - done) / (done - self.kept)
            rest = f", about {duration(left)} left" if done < of else ""
            self.write(f"{name}: {done:,} of {of:,}, {duration(now - self.since)} elapsed{rest}")


def _at_once(number: int | None) -> str:
    return "as many at a time as fit" if number is None else f"{number} at a time"


def _loss(loss: float | None) -> str:
    return "" if loss is None else f", loss {loss:.4f}"


def duration(seconds: float) -> str:
    """M:SS, or H:MM:SS."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
