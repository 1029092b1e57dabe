"""One run under the kernels of two microarchitectures, which OpenBLAS chooses by itself where it is not told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.command_line import tread_bench, tread_bench_anew
from tests.toy_suite import toy_suite, write_suite
from tread_bench.cell.open import Job
from tread_bench.cell.run import weights_sha256
from tread_bench.core.stored.documents import WeightsRef

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


@pytest.fixture(scope="module")
def accepted(runs):
    """A baseline of the run with Haswell's kernels."""
    done = tread_bench("ci", "check", runs / "Haswell", "--baseline", runs / "baseline.json", "--accept")
    assert done.returncode == 0, done.stderr
    return runs / "baseline.json"


def check(runs, run):
    return tread_bench("ci", "check", runs / run, "--baseline", runs / "baseline.json", "--json")


@pytest.mark.full
def test_a_run_under_other_kernels_passes_and_one_with_a_flipped_weight_bit_fails(runs, accepted):
    kids = [[r["evaluations"][-1]["kid"] for r in records(runs / core).values()] for core in CORES]
    assert kids[0] != kids[1], "the kernels change no digit: this test shows nothing"
    done = check(runs, "SkylakeX")
    assert done.returncode == 0, done.stdout
    told = [f["reason"] for f in json.loads(done.stdout)["findings"] if f["figure"] == "bits"]
    assert set(told) == {"equal weights and figures"}

    path, record = next(iter(records(runs / "SkylakeX").items()))
    path.write_text(json.dumps(with_fid(record, 1 + 1e-12)))
    done = check(runs, "SkylakeX")
    assert done.returncode == 0, done.stdout
    path.write_text(json.dumps(with_fid(record, 1 + 1e-8)))
    assert check(runs, "SkylakeX").returncode == 1

    path.write_text(json.dumps({**record, "final_weights_sha256": flipped(runs / "SkylakeX", record["cell"])}))
    done = check(runs, "SkylakeX")
    assert done.returncode == 1, done.stdout
    failed = [f for f in json.loads(done.stdout)["findings"] if f["verdict"] == "fail"]
    assert [(one["figure"], one["measured"].strip()) for one in failed] == [("bits", "final weights")]
    path.write_text(json.dumps(record))


def with_fid(record: dict, factor: float) -> dict:
    """The record with its last FID times that."""
    *before, last = record["evaluations"]
    return {**record, "evaluations": [*before, {**last, "fid": last["fid"] * factor}]}


def flipped(run: Path, cell: str) -> str:
    """Hash of the cell's weights with the last bit of one of them another."""
    job = Job.open(run, cell)
    _, network = job.trained(WeightsRef(cell=cell, run="", iteration=job.cell.training.iterations))
    before = weights_sha256(network.backbone)
    with torch.no_grad():
        next(network.backbone.parameters()).view(-1).view(torch.int32)[0] ^= 1
    assert weights_sha256(network.backbone) != before
    return weights_sha256(network.backbone)


@pytest.mark.endurance
def test_a_run_goes_on_under_other_kernels_and_its_records_say_so(runs, accepted):
    suite, run = runs / "toy.yaml", runs / "SkylakeX"
    (path, before), *_ = records(run).items()
    path.unlink()
    done = tread_bench_anew("run", suite, "--out", run, OPENBLAS_CORETYPE="Haswell")
    assert done.returncode == 0, done.stderr
    now = json.loads(path.read_text())
    assert now["conditions"]["blas_kernels"] == "Haswell"
    assert now["final_weights_sha256"] == before["final_weights_sha256"]
    assert check(runs, "SkylakeX").returncode == 0
