"""Damaged documents before every command that reads them.

`python tests/robustness/documents.py NUMBER` makes one of the attacks again and shows what came of it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from attacks import Result, faults_of, files_in, harm, losses, open_to_all
from damage import (
    Damage,
    damage_bytes,
    damage_json,
    damage_parquet,
    damage_text,
    good_pictures,
    link_to_mine,
)
from hostile_suites import HOSTILE_TEXTS, KEYS, NUMBERS
from marked_tree import mark
from warm import Attempt, Warms

from tread_bench.core.errors import UserError
from tread_bench.runner.folder import RunFolder

DOCUMENTS = 2000
STORED = Path(__file__).parents[1] / "stored"
BASE = """\
seeds: 1
base:
  backbone: {name: DiT, depth: 2, hidden: 8, heads: 1, patch: 4}
  training: {iterations: 4, batch: 4, checkpoint_every: 1, learning_rate: 1e-3, snapshots: [2]}
  sampling: {steps: 1}
  metrics: {at: [2, 4], num_samples: 10, validation_samples: 4, kid_subset_size: 4, kid_subsets: 2,
            similarity_samples: 2, routed_rates: [0.5], routed_blocks: "0:0"}
"""
TOY = f"""\
name: toy
{BASE}
rows:
  dense: {{}}
  routed: {{method: tread, routes: 0:0@0.5}}
  again: {{evaluate: dense, sampling.steps: 2}}
timing: {{pairs: 2, warmup: 1}}
"""
OF_ANOTHER_RUN = f"""\
name: other
{BASE}
rows:
  again: {{evaluate: {{row: dense, run: done}}, sampling.steps: 3}}
"""
ON_FILES = """\
name: files
seeds: 1
base:
  backbone: {name: DiT, depth: 2, hidden: 8, heads: 1, patch: 4}
  data: {name: parquet, train: [images.parquet], held_out: [images.parquet], image_size: 8, channels: 1, num_classes: 2}
  training: {iterations: 2, batch: 4}
  sampling: {steps: 1}
  metrics: {num_samples: 10, validation_samples: 4, kid_subset_size: 4, kid_subsets: 2, similarity_samples: 2,
            extractor: trained-classifier, extractor_weights: features.safetensors}
timing: {pairs: 0}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of document, what damages it, and a command that reads it.

    `document` is a pattern below the place of an attack ("": the command line itself is damaged), and `replaceable` the
    files there that the command may replace. "{}" in the command stands for a damaged argument.
    """

    document: str
    damage: Damage | None
    command: tuple[str, ...]
    statuses: tuple[int, ...]
    replaceable: tuple[str, ...] = ()
    limit_s: float = 60
    may_last: bool = False  # a damaged suite may ask for much, and be right

    def __str__(self) -> str:
        return f"{Path(self.document).name or 'arguments'}: {' '.join(self.command[:1])}"


def _derived(run: str) -> tuple[str, ...]:
    return tuple(f"{run}/{name}" for name in ("records.jsonl", "results.csv", "index.html", "figures/*"))


def _of_a_run(run: str) -> tuple[str, ...]:
    """What `run` may replace in a folder; finished records, and what they stand on, are not among it."""
    kept = ("suite.yaml", "plan.json", ".numerics.log", "*.lock", "cells/*/log", "cells/*/cell.json", "timings/*")
    return (*_derived(run), *(f"{run}/{name}" for name in kept))


CHECKPOINTS = ("done/cells/*/checkpoints/step-*",)
RESUMED = ("attempts.json", "progress.json", "outcome.json", "checkpoints/*", "samples/*", "weights/*")
OF_THE_BEGUN = (*_of_a_run("begun"), *(f"begun/cells/routed-*/{name}" for name in RESUMED))
READERS = (
    *((command, (0, 2), ()) for command in (("status", "done"), ("status", "done", "--json"))),
    (("report", "done"), (0, 2), _derived("done")),
    (("ci", "check", "done", "--baseline", "baseline.json"), (0, 1, 2, 3), ()),
    (("ci", "check", "done", "--baseline", "baseline.json", "--accept"), (0, 2), ("baseline.json",)),
    (("clean", "done", "--yes"), (0, 2), CHECKPOINTS),
    (("sample", "done", "--cell", "routed", "--num", "2"), (0, 2), ()),
    (("run", "toy.yaml", "--out", "done"), (0, 1, 2), _of_a_run("done")),
    (("plan", "other.yaml"), (0, 2), ()),
    (("report", "done", "--export", "sent.zip", "--overwrite"), (0, 2), ("sent.zip",)),
)
OF_THE_RUN = ("plan.json", "cells/*/cell.json", "cells/*/record.json", "cells/*/outcome.json")
SUITE_READERS = (
    *((("plan", "toy.yaml"), 30.0), (("plan", "toy.yaml", "--json"), 30.0)),
    (("run", "toy.yaml", "--smoke", "--out", "new"), 15.0),
    (("features", "toy.yaml", "--out", "new.safetensors", "--iterations", "1"), 30.0),
)
ARGUMENTS = (
    *(("plan", "toy.yaml", "--set", "{}"), ("run", "toy.yaml", "--smoke", "--out", "done", "--set", "{}")),
    *(("profile", "DiT-S/2", "--set", "{}"), ("profile", "DiT-S/2", "--route", "{}"), ("profile", "{}")),
    *(("profile", "DiT-S/2", "--guidance", "{}"), ("profile", "DiT-S/2", "--set", "image_size={}")),
    *(("sample", "done", "--cell", "dense", "--num", "2", "--guidance", "{}"), ("sample", "done", "--cell", "{}")),
    *(("sample", "done", "--cell", "dense", "--num", "2", "--classes", "{}"), ("run", "toy.yaml", "--shard", "{}")),
    *(
        ("report", "{}"),
        ("report", "done", "--export", "{}"),
        ("plan", "{}"),
        ("ci", "check", "done", "--baseline", "{}"),
        ("list", "{}"),
        ("{}",),
    ),
    ("sample", "done", "--cell", "dense", "--num", "2", "--scale", "{}"),
)
LINKED = ("done/cells/evil", "done/figures", "done/timings", "done/samples", "done/index.html")
LINKED_COMMANDS = (
    *(("clean", "done", "--yes"), ("report", "done"), ("run", "toy.yaml", "--out", "done")),
    *(
        ("sample", "done", "--cell", "dense", "--num", "2"),
        ("status", "done"),
    ),
)
ON_FILES_COMMANDS = (
    ("run", "files.yaml", "--out", "new"),
    ("features", "files.yaml", "--out", "new.safetensors", "--iterations", "1"),
)

CASES = (
    *(
        Case(f"done/{document}", damage_json, command, statuses, replaceable)
        for document in OF_THE_RUN
        for command, statuses, replaceable in READERS
    ),
    *(
        Case(f"begun/{document}", damage_json, command, statuses, OF_THE_BEGUN)
        for document in ("cells/routed-*/attempts.json", "cells/routed-*/progress.json", "cells/routed-*/cell.json")
        for command, statuses in ((("run", "toy.yaml", "--out", "begun"), (0, 1, 2)), (("status", "begun"), (0, 2)))
    ),
    *(
        Case(f"begun/{document}", damage, ("run", "toy.yaml", "--out", "begun"), (0, 1, 2), OF_THE_BEGUN)
        for document, damage in (
            ("cells/routed-*/checkpoints/*", damage_bytes),
            ("plan.json", damage_json),
            ("cells/routed-*/cell.json", damage_json),
            ("timings/*.json", damage_json),
        )
    ),
    *(
        Case("done/cells/*/weights/*", damage_bytes, command, (0, 1, 2))
        for command in (("sample", "done", "--cell", "routed", "--num", "2"), ("run", "other.yaml", "--out", "new"))
    ),
    *(
        Case(f"done/{document}", damage_bytes, command, statuses, replaceable)
        for document in ("records.jsonl", "results.csv", "index.html", "suite.yaml", "figures/*")
        for command, statuses, replaceable in READERS
        if command[0] in ("report", "run")
    ),
    *(
        Case(
            "baseline.json",
            damage_json,
            ("ci", "check", "done", "--baseline", "baseline.json", *accept),
            statuses,
            replaced,
        )
        for accept, statuses, replaced in (((), (0, 1, 2, 3), ()), (("--accept",), (0, 2), ("baseline.json",)))
        for _ in range(2)
    ),
    *(
        Case(name, damage, ("report", name, "--out", "drawn"), (0, 2))
        for name, damage in (("sent.json", damage_json), ("sent.zip", damage_bytes))
        for _ in range(2)
    ),
    *(
        Case("toy.yaml", damage_text, command, (0, 1, 2), limit_s=limit_s, may_last=command[0] in ("run", "features"))
        for command, limit_s in SUITE_READERS
        for _ in range(2)
    ),
    *(
        Case("images.parquet", damage_parquet, command, (0, 1, 2), limit_s=30)
        for command in ON_FILES_COMMANDS
        for _ in range(3)
    ),
    Case("features.safetensors", damage_bytes, ON_FILES_COMMANDS[0], (0, 1, 2), limit_s=30),
    *(
        Case(document, link_to_mine, command, (0, 1, 2), (document, *_of_a_run("done"), *CHECKPOINTS))
        for document in LINKED
        for command in LINKED_COMMANDS
    ),
    *(Case("", None, command, (0, 1, 2), limit_s=30, may_last=command[0] == "run") for command in ARGUMENTS),
)


# The place of an attack


class Place:
    """Run folders, suites, data and a tree of somebody's own, made once and copied for every attack.

    A stored one has the documents of a run of long ago in place of a run's that is made now, and no data.
    """

    def __init__(self, folder: Path, warm: Warms, is_stored: bool = False) -> None:
        self.folder, self.warm = folder, warm
        self.whole = folder / "whole"
        mark(self.whole / "mine")
        self._store() if is_stored else self._run()

    def _store(self) -> None:
        for name, text in (("toy", TOY), ("other", OF_ANOTHER_RUN)):
            (self.whole / f"{name}.yaml").write_text(text)
        name = json.loads((STORED / "record.json").read_text())["cell"]
        cell = self.whole / "done" / "cells" / name
        (cell / "checkpoints").mkdir(parents=True)
        (cell / "checkpoints" / "step-000000001.safetensors").write_text("weights\n")
        for document in ("cell.json", "record.json"):
            shutil.copy(STORED / document, cell)
        plan = json.loads((STORED / "plan.json").read_text()) | {
            "cells": [name],
            "references": {name: name},
            "rows": {name: ("tread-1:2", 0)},
        }
        (self.whole / "done" / "plan.json").write_text(json.dumps(plan))
        self._do("ci", "check", "done", "--baseline", "baseline.json", "--accept")
        self._do("report", "done", "--export", "sent.zip")
        shutil.copy(STORED / "export.json", self.whole / "sent.json")

    def _run(self) -> None:
        for name, text in (("toy", TOY), ("other", OF_ANOTHER_RUN), ("files", ON_FILES)):
            (self.whole / f"{name}.yaml").write_text(text)
        pq.write_table(good_pictures(), self.whole / "images.parquet")
        self._do("run", "toy.yaml", "--out", "done")
        self._do("ci", "check", "done", "--baseline", "baseline.json", "--accept")
        self._do("report", "done", "--export", "sent.zip")
        shutil.copy(STORED / "export.json", self.whole / "sent.json")
        without = [part for key in ("extractor", "extractor_weights") for part in ("--set", f"metrics.{key}=null")]
        self._do("features", "files.yaml", "--out", "features.safetensors", "--iterations", "2", *without)
        shutil.copytree(self.whole / "done", self.whole / "accepted", ignore=shutil.ignore_patterns("figures"))
        shutil.copytree(self.whole / "done", self.whole / "begun", ignore=shutil.ignore_patterns("figures"))
        for path in self.whole.glob("begun/cells/routed-*/*come.json"):
            path.unlink()
            path.with_name("record.json").unlink()

    def _do(self, *command: str) -> None:
        attempt = self.warm(*command, cwd=self.whole)
        assert attempt.status == 0, attempt

    def attack(self, number: int) -> Result:
        """Damage something, run a command on it."""
        case, chance = CASES[number % len(CASES)], random.Random(number)
        here = shutil.copytree(self.whole, self.folder / f"attack-{number}", symlinks=True)
        document, told = _damaged(case, here, chance)
        argument = _hostile_argument(chance) if not case.document else ""
        command = [argument if part == "{}" else part for part in case.command]
        before = files_in(here)
        attempt = self.warm(*command, cwd=here, limit_s=case.limit_s)
        faults = [*_faults(case, attempt, document), *_lost(case, here, document, before)]
        shutil.rmtree(here)
        told += f" = {argument!r:.60}" if argument else ""
        return str(case), attempt, [f"{told}: {fault}" for fault in faults]


def _damaged(case: Case, here: Path, chance: random.Random) -> tuple[Path | None, str]:
    if case.damage is None:
        return None, "argument"
    found = sorted(here.glob(case.document)) or [here / case.document]
    document = chance.choice(found)
    others = [here / "mine"] if case.damage is link_to_mine else _others(here, document)
    told = case.damage(document, others, chance)
    return document, f"{document.relative_to(here)}: {told}"


def _others(here: Path, document: Path) -> list[Path]:
    """What a document may be exchanged for, or get pieces of."""
    akin = here.glob(f"done/cells/*/*{document.suffix}")
    return sorted(path for path in (*akin, *here.glob("*.yaml"), *here.glob("*.parquet")) if path != document)


def _hostile_argument(chance: random.Random) -> str:
    """A text; alone, as the value of a key, or in YAML. No NUL and no lone surrogate: neither can be an argument."""
    text = str(
        chance.choice((*HOSTILE_TEXTS, *NUMBERS, "[" * 2000, "{name: cfg, interval: [a, .nan]}", "{a: &a [*a]}"))
    )
    text = text.replace("\0", "").encode("utf-8", "ignore").decode()
    return chance.choice((text, f"{chance.choice(KEYS)}={text}", f"{{name: {text}}}", f"{text},{text}"))


def _faults(case: Case, attempt: Attempt, document: Path | None) -> list[str]:
    faults = faults_of(attempt, case.statuses)
    if attempt.status is None and case.may_last:
        return [fault for fault in faults if not fault.startswith("still running")]
    if attempt.status == 2 and document is not None and not _is_named(attempt, document):
        faults.append(f"the message names neither {document.name} nor what it disagrees with")
    return faults


def _is_named(attempt: Attempt, document: Path) -> bool:
    """Whether a message names the document, or something else that the command was given."""
    given = [part for part in attempt.command[1:] if not part.startswith("-")]
    behind = [os.readlink(document)] if document.is_symlink() else []
    return any(name in attempt.stderr for name in (document.name, *behind, *given))


def _lost(case: Case, here: Path, document: Path | None, before: dict[str, str]) -> list[str]:
    """Files that a command has no business to touch, and rows and weights that another one's damage has cost."""
    now = files_in(here)
    lost = harm(before, now, case.replaceable)
    if case.command[0] == "report" and document is not None and "cells" in document.parts:
        lost += _rows_lost(here / "done", document)
    if case.command[0] == "clean" and document is not None and document.name == "record.json":
        lost += _weights_lost(here / "done", document, before, now)
    return lost


def _rows_lost(run: Path, document: Path) -> list[str]:
    """A damaged document costs the page its own row only."""
    if not (run / "records.jsonl").is_file():
        return []
    told = [json.loads(line)["cell"] for line in (run / "records.jsonl").read_text().splitlines()]
    cells = {path.name for path in (run / "cells").iterdir() if not document.is_relative_to(path)}
    return [f"no row of {cell}" for cell in sorted(cells - set(told)) if cell != "evil" and not cell.startswith(".")]


def _weights_lost(run: Path, document: Path, before: dict[str, str], now: dict[str, str]) -> list[str]:
    """While a record cannot be read, its cell's checkpoints may be all that there is of it."""
    try:
        if RunFolder(run).record(document.parent.name) is not None:
            return []
    except UserError:
        pass
    place = f"done/cells/{document.parent.name}/checkpoints/*"
    return [f"lost with an unreadable record: {name}" for name in losses(before, now) if Path(name).match(place)]


def main(number: int) -> None:
    with open_to_all("documents") as folder, Warms(1) as warm:
        kind, attempt, faults = Place(folder, warm).attack(number)
    print(f"{kind}\n{attempt}faults: {'; '.join(faults) or 'none'}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
