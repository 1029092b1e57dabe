"""One run under the kernels of two microarchitectures, which OpenBLAS chooses by itself where it is not told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.command_line import tread_bench, tread_bench_anew
from tests.toy_suite import toy_suite, write_suite

CORES = ("Haswell", "SkylakeX")
MORE_IMAGES_THAN_FEATURES = "num_samples: 256, validation_samples: 32, similarity_samples: 8, kid_subset_size: 32"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run for each core type; skips where the processor lacks one, or its name does not change the kernels."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("SkylakeX's kernels need AVX-512, which this processor lacks")
    folder = tmp_path_factory.mktemp("runs")
    suite = write_suite(folder, toy_suite(8, 4, seeds=1, metrics=MORE_IMAGES_THAN_FEATURES, pairs=0))
    for core in CORES:
        cache = {"XDG_CACHE_HOME": str(folder / f"{core} cache")}  # the statistics of the real images, too
        done = tread_bench_anew("run", suite, "--out", folder / core, OPENBLAS_CORETYPE=core, **cache)
        assert done.returncode == 0, done.stderr
    found = [next(iter(records(folder / core).values()))["conditions"]["blas_kernels"] for core in CORES]
    if found != list(CORES):
        pytest.skip(f"the BLAS of NumPy computes here with {found} for {CORES}")
    return folder


def records(run: Path) -> dict[Path, dict]:
    return {path: json.loads(path.read_text()) for path in sorted(run.glob("cells/*/record.json"))}


@pytest.mark.full
def test_a_run_under_other_kernels_passes(runs):
    kids = [[r["evaluations"][-1]["kid"] for r in records(runs / core).values()] for core in CORES]
    assert kids[0] != kids[1], "the kernels change no digit: this test shows nothing"
    baseline = ("--baseline", runs / "baseline.json")
    assert tread_bench("ci", "check", runs / "Haswell", *baseline, "--accept").returncode == 0
    done = tread_bench("ci", "check", runs / "SkylakeX", *baseline, "--json")
    assert done.returncode == 0, done.stdout
    told = [f["reason"] for f in json.loads(done.stdout)["findings"] if f["figure"] == "bits"]
    assert set(told) == {"equal weights and figures"}
