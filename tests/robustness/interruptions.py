"""Ctrl-C at random instants of every command that takes a while, and of every phase of a run.

`python tests/robustness/interruptions.py NUMBER` makes one of the attacks again and shows what came of it.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from attacks import Result, faults_of, files_in, harm, open_to_all
from documents import OF_THE_BEGUN, Place
from real import Real
from warm import Attempt, Warms

INTERRUPTIONS = 200
INTERRUPTED = (130, -2)  # a status, or the signal itself
LIMIT_S = 120.0  # of a whole command on a busy machine
STOPS_S = 20.0  # a command that was interrupted
TWICE = 0.3  # share of attacks that press it again
RESUMED = 8  # one run in so many is run to its end afterwards

Sign = Callable[[Path, Real], bool]


def _has_server(run: Path, life: Real) -> bool:
    return len(life.session()) > 1


def _is_planned(run: Path, life: Real) -> bool:
    return (run / "plan.json").exists()


def _is_trained(run: Path, life: Real) -> bool:
    cells = list(run.glob("cells/*/cell.json"))
    return bool(cells) and all(path.with_name("outcome.json").exists() for path in cells)


def _is_recorded(run: Path, life: Real) -> bool:
    return any(run.glob("cells/*/record.json"))


PHASES: dict[str, Sign] = {
    "starting": lambda run, life: True,
    "loading torch": _has_server,
    "training": _is_planned,
    "measuring speed": _is_trained,
    "writing records and page": _is_recorded,
}
OTHERS = (
    *(("report", "done"), ("sample", "done", "--cell", "dense", "--num", "2")),
    *(("status", "begun", "--watch"), ("plan", "toy.yaml"), ("profile", "DiT-S/2"), ("list", "backbones"), ("doctor",)),
    *(("ci", "check", "done", "--baseline", "baseline.json"), ("run", "toy.yaml", "--out", "done"), ("--help",)),
    ("features", "files.yaml", "--out", "new.safetensors", "--iterations", "200"),
)
WATCHED_S = 5.0  # of a command that ends by Ctrl-C alone


class Instants:
    """How long each phase and command takes there when nobody disturbs it."""

    def __init__(self, place: Place, lengths: Mapping[str, float] | None = None) -> None:
        self.place, self.turn = place, threading.Lock()
        self.lengths = dict(lengths or {})  # measured where it is not given
        self.figures: dict[str, object] = {}

    def of_run(self) -> None:
        """Measure a run from its start to its end."""
        here = self.copied("undisturbed")
        with Real("run", "toy.yaml", "--out", "new", cwd=here) as life:
            seen = []
            for sign in PHASES.values():
                while not sign(here / "new", life) and life.process.poll() is None:
                    time.sleep(0.005)
                seen.append(time.monotonic())
            attempt = life.end(LIMIT_S)
        assert attempt.status == 0, attempt
        seen.append(time.monotonic())
        self.lengths |= {name: end - begin for name, (begin, end) in zip(PHASES, pairwise(seen), strict=True)}
        self.figures = results(here / "new")

    def of_command(self, command: tuple[str, ...]) -> float:
        """Seconds of one of the others."""
        name = " ".join(command)
        if "--watch" in command:
            return WATCHED_S
        if name not in self.lengths:
            with Real(*command, cwd=self.copied("undisturbed")) as life:
                self.lengths[name] = life.end(LIMIT_S).seconds
        return self.lengths[name]

    def copied(self, name: str) -> Path:
        here = self.place.folder / name
        shutil.rmtree(here, ignore_errors=True)
        return shutil.copytree(self.place.whole, here, symlinks=True)

    def attack(self, number: int) -> Result:
        """Start a command, press Ctrl-C at an instant, look what is left."""
        chance = random.Random(number)
        here = self.copied(f"interrupted-{number}")
        if number % 2:
            kind, attempt, faults = self._one_of_the_others(OTHERS[number // 2 % len(OTHERS)], here, chance)
        else:
            kind, attempt, faults = self._run(list(PHASES)[number // 2 % len(PHASES)], here, number, chance)
        shutil.rmtree(here)
        return kind + (", before the program's first line" if is_before_the_program(attempt) else ""), attempt, faults

    def _run(self, phase: str, here: Path, number: int, chance: random.Random) -> Result:
        """A run from its start, or one that goes on."""
        with self.turn:
            if not self.figures:
                self.of_run()
        out = chance.choice(("new", "begun")) if phase in ("starting", "loading torch") else "new"
        begun = time.monotonic()

        def wait(life: Real) -> None:
            while not PHASES[phase](here / out, life) and life.process.poll() is None:
                time.sleep(0.002)
                if time.monotonic() - begun > LIMIT_S:
                    break
            time.sleep(chance.uniform(0, self.lengths[phase]))

        command = ("run", "toy.yaml", "--out", out)
        attempt, faults = interrupted(command, here, wait, chance, OF_THE_BEGUN)
        faults += torn(here / out)
        if number % (2 * RESUMED) == 0 and not faults:
            faults += self._resumed(here, out)
        return f"run, {phase}", attempt, faults

    def _resumed(self, here: Path, out: str) -> list[str]:
        attempt = self.place.warm("run", "toy.yaml", "--out", out, cwd=here)
        faults = [f"resumed: {fault}" for fault in faults_of(attempt, (0,))]
        return faults if results(here / out) == self.figures else [*faults, "resumed: other figures"]

    def _one_of_the_others(self, command: tuple[str, ...], here: Path, chance: random.Random) -> Result:
        with self.turn:
            length = self.of_command(command)
        instant = chance.uniform(0, length)
        derived = ("done/*.jsonl", "done/*.csv", "done/index.html", "done/figures/*")
        attempt, faults = interrupted(command, here, lambda life: time.sleep(instant), chance, derived)
        return command[0], attempt, faults


def interrupted(
    command: Sequence[str], here: Path, wait: Callable[[Real], None], chance: random.Random, replaceable: Sequence[str]
) -> tuple[Attempt, list[str]]:
    """Start a command, wait, press Ctrl-C once or twice: how it ended, and what is wrong."""
    before = files_in(here)
    with Real(*command, cwd=here) as life:
        wait(life)
        was_over = life.process.poll() is not None
        life.interrupt()
        if chance.random() < TWICE:
            time.sleep(chance.uniform(0, 0.5))
            life.interrupt()
        attempt = life.end(STOPS_S)
        orphans = life.orphans()
    statuses = (0,) if was_over or "--watch" in command else (0, *INTERRUPTED)
    faults = [] if is_before_the_program(attempt) else faults_of(attempt, (*statuses, *INTERRUPTED))
    faults += [f"processes left: {len(orphans)}"] if orphans else []
    faults += harm(before, files_in(here), replaceable)
    return attempt, faults


def is_before_the_program(attempt: Attempt) -> bool:
    """Whether it met Python while that was starting itself and finding `main`, where no line of a program can help."""
    return "Traceback" in attempt.stderr and not any(ours in attempt.stderr for ours in (", in main", "cli.py"))


def torn(run: Path) -> list[str]:
    """Documents that are there in part."""
    faults = []
    for path in run.rglob("*.json"):
        try:
            json.loads(path.read_text())
        except ValueError:
            faults.append(f"torn: {path.name}")
    return faults


def results(run: Path) -> dict[str, object]:
    """What must not depend on interruptions, by cell."""
    records = [json.loads(path.read_text()) for path in run.glob("cells/*/record.json")]
    return {r["cell"]: (r["status"], r["final_weights_sha256"], _qualities(r), r["train_loss"]) for r in records}


def _qualities(record: dict[str, Any]) -> list[tuple[object, ...]]:
    return [(e["iteration"], e["fid"], e["validation_loss"]) for e in record["evaluations"]]


def main(number: int) -> None:
    with open_to_all("interruptions") as folder, Warms(1) as warm:
        kind, attempt, faults = Instants(Place(folder, warm)).attack(number)
    print(f"{kind}\n{attempt}faults: {'; '.join(faults) or 'none'}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
