"""A suite of four cells that train for seconds, and what its run leaves, for tests of where cells run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command_line import figures, tread_bench

SUITE = """
name: toy
seeds: 2
base:
  backbone: {name: DiT, depth: 4, hidden: 32, heads: 2, patch: 2}
  training: {iterations: 60, batch: 32, checkpoint_every: 5}
  sampling: {steps: 2}
  metrics: {num_samples: 32, validation_samples: 16, similarity_samples: 8, kid_subset_size: 16, kid_subsets: 2}
rows:
  dense: {method: dense}
  routed: {method: tread, routes: 1:2@0.5}
timing: {pairs: 2, warmup: 1}
"""


def write_suite(folder: Path) -> Path:
    (folder / "toy.yaml").write_text(SUITE)
    return folder / "toy.yaml"


def results(out: Path) -> dict[str, object]:
    """All of a run's records that must not depend on where its cells ran, by cell."""
    return {path.parent.name: figures(json.loads(path.read_text())) for path in out.glob("cells/*/record.json")}


def results_here(suite: Path) -> dict[str, object]:
    """The same of a run of the whole suite on this machine."""
    done = tread_bench("run", suite, "--out", suite.parent / "local")
    assert done.returncode == 0, done.stderr
    found = results(suite.parent / "local")
    assert len(found) == 4
    return found
