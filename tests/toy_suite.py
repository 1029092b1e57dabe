"""A suite of two rows that train for seconds, dense and routed, and what its run leaves."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

from tests.command_line import figures, tread_bench
from tread_bench.core.stored.records import Evaluation

OWNER = "toy-s0-0123456789"  # of files that no run has written


def no_figures(trainer: object, iteration: int, seconds: float) -> Evaluation:
    """In place of an evaluation, where only training counts."""
    return Evaluation(iteration=iteration, train_seconds=seconds, validation_loss=0, validation_loss_per_time={})


METRICS = "num_samples: 64, validation_samples: 32, similarity_samples: 8, kid_subset_size: 32"
FEW_SAMPLES = "num_samples: 32, validation_samples: 16, similarity_samples: 8, kid_subset_size: 16"


def toy_suite(
    iterations: int,
    checkpoint_every: int,
    *,
    at: str = "",
    seeds: int = 2,
    hidden: int = 16,
    batch: int = 16,
    metrics: str = METRICS,
    pairs: int = 2,
    more: str = "",
) -> str:
    """The suite's text; `at` says when to evaluate beside the end, `more` is put after everything else."""
    return f"""\
name: toy
seeds: {seeds}
base:
  backbone: {{name: DiT, depth: 4, hidden: {hidden}, heads: 2, patch: 2}}
  training: {{iterations: {iterations}, batch: {batch}, learning_rate: 1e-3, checkpoint_every: {checkpoint_every}}}
  sampling: {{steps: 2}}
  metrics: {{at: [{at}{iterations}], {metrics}}}
rows:
  dense: {{}}
  routed: {{method: tread, routes: 1:2@0.5}}
timing: {{pairs: {pairs}, warmup: 1}}
{more}"""


OF_SIXTY = {"iterations": 60, "checkpoint_every": 5, "at": "30, "}
TOY = toy_suite(**OF_SIXTY, pairs=3)  # what tests/conftest.py trains
ONE_SEED = toy_suite(**OF_SIXTY, seeds=1, pairs=0)  # half of its cells, untimed

TWO_CELLS = toy_suite(iterations=200, checkpoint_every=5, seeds=1, hidden=32, batch=32, metrics=FEW_SAMPLES)

OF_TWO_RANKS = ("--rows", "routed", "--set", "limits.processes_per_cell=2")


def write_suite(folder: Path, text: str) -> Path:
    (folder / "toy.yaml").write_text(text)
    return folder / "toy.yaml"


def finished_run(suite: Path, out: Path, *arguments: object) -> CompletedProcess[str]:
    """What an undisturbed run into a new folder says."""
    done = tread_bench("run", suite, "--out", out, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def results(out: Path) -> dict[str, object]:
    """All of a run's records that must not depend on where its cells ran, by cell."""
    return {path.parent.name: figures(json.loads(path.read_text())) for path in out.glob("cells/*/record.json")}


@cache
def results_here(text: str, *arguments: object) -> dict[str, object]:
    """The same of a run of a suite on this machine."""
    with TemporaryDirectory() as folder:
        finished_run(write_suite(Path(folder), text), Path(folder) / "run", *arguments)
        return results(Path(folder) / "run")
