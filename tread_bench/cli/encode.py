"""`encode`: images to latents."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tread_bench.cell.numerics import usable_device
from tread_bench.cli.display import QUIET_S, duration
from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.encode.encode import EncodeRequest, Report, encode
from tread_bench.data.encode.job import SPLITS, Job


def encode_images(request: EncodeRequest) -> str:
    """Encode both splits; the `data` of a suite that trains on the latents. Raises UserError."""
    if problems := data_problems([(request.data, False)], reads_everything=True):
        raise UserError("\n".join(problems))
    device = usable_device(request.device)
    with _progress(Console(stderr=True), device) as report:
        job = encode(replace(request, device=device), report)
    return _data_of_suite(request, job)


def _data_of_suite(request: EncodeRequest, job: Job) -> str:
    """YAML with the keys that the manifests do not state; paths are absolute, so that the suite may be anywhere."""
    train, held_out = (str(request.out.absolute() / name) for name in SPLITS)
    data = {
        "name": "latents",
        "train": [train],
        "held_out": [held_out],
        "decoder": str(request.vae.absolute()),
        "decoded_size": job.image[1],
    }
    text: str = yaml.safe_dump({"data": data}, sort_keys=False, allow_unicode=True)
    return f"{text}  # images: [...]  the real images, for FID"


@contextmanager
def _progress(console: Console, device: str) -> Iterator[Report]:
    """Bars where the console is a terminal, else lines."""
    if not console.is_terminal:
        yield Lines(device, lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True))
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bars:
        tasks = {name: bars.add_task(f"{name} on {device}", total=None) for name in SPLITS}

        def report(split: str, done: int, of: int) -> None:
            bars.update(tasks[split], completed=done, total=of)

        yield report


class Lines:
    """A line when a split begins and ends, and now and then one between."""

    def __init__(
        self, device: str, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.device, self.write, self.clock = device, write, clock
        self.split = ""

    def __call__(self, split: str, done: int, of: int) -> None:
        # The split begins; what an earlier start encoded is done.
        now = self.clock()
        if split != self.split:
            self.split = split
            self.kept, self.since, self.spoke = done, now, now
            self.write(f"{split} on {self.device}: {done:,} of {of:,} images are encoded")

        # The split continues or ends.
        elif done == of or now - self.spoke >= QUIET_S:
            self.spoke = now
            elapsed = now - self.since
            left = elapsed * (of - done) / (done - self.kept)
            rest = f", about {duration(left)} left" if done < of else ""
            self.write(f"{split}: {done:,} of {of:,}, {duration(elapsed)} elapsed{rest}")
