"""A run whose blocks take the slow path, against a baseline of the fast one."""

from __future__ import annotations

import json

import pytest

from tests.command_line import tread_bench

SUITE = """\
name: slow
base:
  data: {name: random_latents, channels: 1, image_size: 16, num_classes: 10, count: 80}
  backbone: {name: %s, depth: 2, hidden: 32, patch: 1}
  training: {iterations: 1, batch: 4}
  metrics: {generate: false, validation_samples: 8, similarity_samples: 8}
rows:
  routed: {method: tread, routes: "0:0@0.5", selector: rows}
timing: {pairs: 20, warmup: 3}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "family", "kernel", "fast", "slow"),
    [
        ("cpu", "DiS", "scan", "numba", "torch"),
        pytest.param("cuda", "DRWKV", "wkv", "triton", "torch", marks=pytest.mark.gpu),
    ],
)
def test_blocks_on_the_slow_path_fail_by_their_step_time_alone(tmp_path, device, family, kernel, fast, slow):
    suite, baseline = tmp_path / "slow.yaml", tmp_path / "baseline.json"
    suite.write_text(SUITE % family)
    for name in (fast, slow):
        chosen = ("--device", device, "--set", f"compute.kernels.{kernel}={name}")
        done = tread_bench("run", suite, "--out", tmp_path / name, *chosen)
        assert done.returncode == 0, done.stderr
    assert tread_bench("check", tmp_path / fast, "--baseline", baseline, "--accept").returncode == 0
    done = tread_bench("check", tmp_path / slow, "--baseline", baseline, "--json")
    assert done.returncode == 1, done.stdout
    failed = [finding for finding in json.loads(done.stdout)["findings"] if finding["verdict"] == "fail"]
    assert "step time" in {finding["figure"] for finding in failed} <= {"step time", "dense / routed"}
