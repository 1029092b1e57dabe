"""A suite on data with captions, from its run to its samples, as people start it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests import captioned_digits
from tests.command_line import tread_bench_anew

pytestmark = pytest.mark.endurance

SUITE = """\
name: captions
base:
  backbone: {name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}
  data: captioned-digits
  training: {iterations: 4, batch: 8}
  sampling: {steps: 2, guidance: cfg, guidance_scale: 2}
  metrics: {num_samples: 40, validation_samples: 16, similarity_samples: 8, kid_subset_size: 16,
            routed_rates: [0, 0.5], routed_blocks: "1:2"}
rows:
  dense: {}
  routed: {method: tread, routes: 1:2@0.5}
  early: {evaluate: dense, sampling.guidance: {name: sparse, blocks: "1:2", label_weak: false}}
  uvit: {backbone: {name: U-ViT, depth: 4, hidden: 16, heads: 2, patch: 2}}
  mmdit: {backbone: {name: MMDiT}, method: tread, routes: 1:2@0.5}
timing: {pairs: 2, warmup: 1}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Commands that find the data source, and the folder of a finished run."""
    site, out = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("runs") / "run"
    shutil.copy(captioned_digits.__file__, site / "captioned_digits.py")
    about = site / "captioned_digits-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: captioned-digits\nVersion: 1\n")
    group = "[tread_bench.data_sources]\ncaptioned-digits = captioned_digits:CAPTIONED_DIGITS\n"
    (about / "entry_points.txt").write_text(group)
    (site / "suite.yaml").write_text(SUITE)

    def command(*arguments):
        checkout = Path(__file__).parents[2]
        done = tread_bench_anew(*arguments, PYTHONPATH=f"{site}:{checkout}")
        assert "Traceback" not in done.stderr
        return done

    done = command("run", site / "suite.yaml", "--out", out)
    assert done.returncode == 0, done.stderr
    return command, out


def test_every_row_is_finished_and_keeps_the_captions_of_its_samples(run):
    _, out = run
    records = [json.loads(path.read_text()) for path in out.glob("cells/*/record.json")]
    assert [record["status"] for record in records] == ["done"] * 4
    captions = [evaluation["captions"] for record in records for evaluation in record["evaluations"]]
    assert all(found == captions[0] for found in captions) and {caption.split()[0] for caption in captions[0]} == {
        "a",
        "the",
    }
    assert len({record["evaluations"][-1]["protocol"] for record in records}) == 1


def test_samples_of_kept_weights_are_those_of_the_metrics(run, tmp_path):
    command, out = run
    done = command("sample", out, "--cell", "dense", "--num", 40, "--npz", tmp_path / "samples.npz")
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "samples.npz") as file:
        assert file["arr_0"].shape == (40, 8, 8, 1) and len(file.files) == 1  # without labels
    done = command("sample", out, "--cell", "dense", "--classes", "1,2")
    assert done.returncode == 2 and "these data have no labels" in done.stderr


def test_a_network_of_text_is_timed_on_random_text(run):
    command, _ = run
    sizes = ["depth=2", "hidden=16", "heads=2", "context_tokens=3", "context_dim=5"]
    sizes += ["image_size=8", "channels=1", "num_classes=0"]
    settings = [part for size in sizes for part in ("--set", size)]
    done = command("profile", "U-ViT", *settings, "--train", "--batch", 4, "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step_time_ms"] > 0
