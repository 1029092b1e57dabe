"""A run whose blocks take the slow path, against a baseline of the fast one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import tread_bench, tread_bench_anew
from tread_bench.regression.compare import Baseline, figures_of
from tread_bench.runner.folder import RunFolder

SUITE = """\
name: slow
base:
  data: {name: random_latents, channels: 1, image_size: 8, num_classes: 10, count: 80}
  backbone: {name: %s, depth: %d, hidden: 32, patch: 1}
  training: {iterations: 1, batch: 4}
  metrics: {generate: false, validation_samples: 8, similarity_samples: 8}
rows:
  routed: {method: tread, routes: "0:0@0.5", selector: rows}
timing: {pairs: 20, warmup: 3}
"""


def accept(folder: RunFolder, baseline: Path) -> None:
    """Accept a run as `--accept` does, also where others disturbed its timing."""
    plan = folder.existing_plan()
    accepted = Baseline(suite=plan.suite.name, cells=figures_of(folder.records(plan.references)))
    baseline.write_text(accepted.model_dump_json())


@pytest.mark.full
@pytest.mark.parametrize(
    ("device", "family", "depth", "kernel", "fast", "slow"),
    [
        pytest.param("cpu", "DiS", 2, "scan", "numba", "torch", marks=pytest.mark.endurance),
        pytest.param("cuda", "DRWKV", 3, "wkv", "triton", "torch", marks=pytest.mark.gpu),
    ],
)
def test_blocks_on_the_slow_path_are_told_by_their_step_time_alone(tmp_path, device, family, depth, kernel, fast, slow):
    """Its verdict on a CPU may also be that others disturbed it: these tests run beside each other."""
    suite, baseline = tmp_path / "slow.yaml", tmp_path / "baseline.json"
    suite.write_text(SUITE % (family, depth))
    for name in (fast, slow):
        chosen = ("--device", device, "--set", f"compute.kernels.{kernel}={name}")
        done = tread_bench_anew("run", suite, "--out", tmp_path / name, *chosen)  # a fork of torch sees no GPU
        assert done.returncode == 0, done.stderr
    accept(RunFolder(tmp_path / fast), baseline)
    done = tread_bench("ci", "check", tmp_path / slow, "--baseline", baseline, "--json")
    found = {finding["figure"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert found[f"compute.kernels.{kernel}"]["verdict"] == "fail"

    chosen_alike = json.loads(baseline.read_text().replace(f'"{kernel}": "{fast}"', f'"{kernel}": "{slow}"'))
    baseline.write_text(json.dumps(chosen_alike))  # as if it were the fast path that has become slow
    done = tread_bench("ci", "check", tmp_path / slow, "--baseline", baseline, "--json")
    found = {finding["figure"]: finding for finding in json.loads(done.stdout)["findings"]}
    failed = {figure for figure, finding in found.items() if finding["verdict"] == "fail"}
    assert failed <= {"step time", "dense / routed", "bits"}
    accepted, measured = (float(found["step time"][side].removesuffix(" ms")) for side in ("accepted", "measured"))
    assert measured > 1.2 * accepted
    verdicts = {"fail"} if device == "cuda" else {"fail", "inconclusive"}
    assert found["step time"]["verdict"] in verdicts
    assert done.returncode == (1 if failed else 3)
