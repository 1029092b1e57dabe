"""Our metrics against a plain restatement of ADM's evaluator, and wrong ports of it that must differ."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_fidelity.defaults import DEFAULTS

from tests.measure import adm_evaluator as adm
from tread_bench import evaluate
from tread_bench.core.config.metrics import Metrics, in_protocol
from tread_bench.measure.quality.fid.metric import features_to_fid, statistics_to_fid
from tread_bench.measure.quality.inception_score.metric import logits_to_inception_score
from tread_bench.measure.quality.precision_recall import metric as precision_recall
from tread_bench.measure.quality.precision_recall.metric import features_to_precision_recall
from tread_bench.measure.quality.statistics import Gaussian, features_to_statistics


def correlated(count, dims, seed, shift=0.0):
    """Float32 features of full rank, whose variances fall by a factor of 100, as those of a network do."""
    random = np.random.default_rng(seed)
    scales = np.geomspace(1, 0.1, dims)
    mixed = (random.standard_normal((count, dims)) * scales) @ np.random.default_rng(9).standard_normal((dims, dims))
    return (mixed / np.sqrt(dims) + shift).astype(np.float32)


def in_eighths(count, dims, seed, high=4.0):
    """Features whose products are exact in float32, in whatever order they are added, and not in float16."""
    random = np.random.default_rng(seed)
    return (random.integers(0, int(high * 8), (count, dims)) / 8).astype(np.float32)


def fid(samples, reference):
    return statistics_to_fid(*(features_to_statistics(torch.from_numpy(part)) for part in (samples, reference)))


def score(logits, chunk=5000):
    return logits_to_inception_score(torch.from_numpy(logits), chunk).value


def shares(samples, reference, **settings):
    found = features_to_precision_recall(torch.from_numpy(samples), torch.from_numpy(reference), **settings)
    return found.precision.value, found.recall.value


def test_fid_is_that_of_adm():
    samples, reference = correlated(900, 128, 0, shift=0.1), correlated(1200, 128, 1)
    expected = adm.frechet_distance(adm.statistics(samples), adm.statistics(reference))
    assert fid(samples, reference) == pytest.approx(expected, rel=1e-8)
    assert expected > 0.5


@pytest.mark.parametrize(("n", "m"), [(40, 90), (90, 40), (20, 30), (400, 400)])
def test_the_distance_of_few_images_is_by_singular_values_of_their_features(n, m):
    """With centred features X and Y over (n - 1)^(1/2), tr (C C_r)^(1/2) is the sum of those of X Y^T."""
    sets = correlated(n, 64, 0, shift=0.1).astype(float), correlated(m, 64, 1).astype(float)
    x, y = ((part - part.mean(0)) / math.sqrt(len(part) - 1) for part in sets)
    shift = np.square(sets[0].mean(0) - sets[1].mean(0)).sum()
    expected = shift + np.square(x).sum() + np.square(y).sum() - 2 * np.linalg.svd(x @ y.T, compute_uv=False).sum()
    found = features_to_fid(*(torch.from_numpy(part).float() for part in sets))
    assert found == pytest.approx(expected, rel=1e-7)
    own = features_to_fid(*[torch.from_numpy(sets[0]).float()] * 2)
    assert 0 <= own < 1e-6 * expected


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_statistics_that_are_not_finite_have_no_distance(wrong):
    usual, count = Gaussian(torch.zeros(3).double(), torch.eye(3).double(), 9), 5
    for mean, covariance in ((wrong, 1.0), (0.0, wrong)):
        broken = Gaussian(torch.full((3,), mean).double(), torch.eye(3).double() * covariance, count)
        for pair in ((usual, broken), (broken, usual)):
            with pytest.raises(FloatingPointError, match="NaN or infinite"):
                statistics_to_fid(*pair)


@pytest.mark.parametrize("count", [200, 250, 130])  # a last chunk that is whole, smaller, and the only one but one
def test_the_inception_score_is_that_of_adm(count):
    logits = np.random.default_rng(0).standard_normal((count, 20)).astype(np.float32) * 3
    assert score(logits, chunk=100) == pytest.approx(adm.inception_score(logits, chunk=100), rel=1e-6)


@pytest.mark.plain_bits
@pytest.mark.parametrize("block", [10_000, 100])
def test_precision_and_recall_in_float16_are_those_of_adm(block, monkeypatch):
    monkeypatch.setattr(precision_recall, "_BLOCK", block)
    monkeypatch.setattr(precision_recall, "_ROWS", 33)
    samples, reference = in_eighths(330, 16, 0, high=3.5), in_eighths(270, 16, 1)
    expected = adm.precision_recall(samples, reference, block=block)
    assert shares(samples, reference) == expected
    assert adm.precision_recall(samples, reference, dtype=np.float32) != expected  # float16 is seen


@pytest.mark.plain_bits
def test_a_block_that_overflows_float16_is_computed_in_float32(monkeypatch):
    monkeypatch.setattr(precision_recall, "_BLOCK", 100)
    samples, reference = in_eighths(250, 32, 0, high=3.5), in_eighths(270, 32, 1)
    in_half = adm.precision_recall(samples, reference, block=100)
    samples[120, 0] = reference[130, 0] = 300  # 300^2 is more than 65,504
    expected = adm.precision_recall(samples, reference, block=100)
    assert shares(samples, reference) == expected
    in_float32 = adm.precision_recall(samples, reference, dtype=np.float32)
    assert len({in_half, in_float32, expected}) == 3  # which blocks are in float32 matters


def test_distances_of_network_like_features_agree_within_the_tolerance():
    samples, reference = correlated(1500, 64, 0), correlated(1500, 64, 1)
    expected = adm.precision_recall(samples, reference)
    assert shares(samples, reference) == pytest.approx(expected, abs=1e-3)  # at most one image
    in_float32 = adm.precision_recall(samples, reference, dtype=np.float32)
    assert shares(samples, reference, distances="float32") == pytest.approx(in_float32, abs=1e-3)
    assert 0.2 < expected[0] < 0.98


def test_precision_has_an_interval_of_a_share():
    samples, reference = correlated(400, 32, 0), correlated(400, 32, 1)
    found = features_to_precision_recall(torch.from_numpy(samples), torch.from_numpy(reference))
    p, n, z = found.precision.value, 400, 1.959964
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    assert (found.precision.low, found.precision.high) == pytest.approx((centre - half, centre + half))
    assert (found.recall.low, found.recall.high) == (None, None)


def test_the_protocols_have_the_defaults_of_their_code_and_cells_their_own():
    kid, shares = (in_protocol(name, "torch-fidelity") for name in ("kid", "precision_recall"))
    assert (kid.subsets, kid.subset_size) == (DEFAULTS["kid_subsets"], DEFAULTS["kid_subset_size"]) == (100, 1000)
    assert (shares.neighbours, shares.distances) == (DEFAULTS["prc_neighborhood"], "float64")
    of_cells = {metric.name: metric for metric in Metrics().standard}["kid"]
    assert (of_cells.subsets, of_cells.subset_size) == (50, 100)
    of_adm = in_protocol("inception_score", "adm"), in_protocol("precision_recall", "adm")
    assert (of_adm[0].chunk, of_adm[1].distances) == (5000, "float16")


# With real weights: lavinal712/ADM-evaluation-suite-pytorch's table.
GOLDEN = {  # figure: value, and the tolerance of a right port
    "inception_score": (215.837, 0.216),
    "fid": (3.94256, 0.002),
    "sfid": (6.140434, 0.002),
    "precision": (0.82650, 0.0015),
    "recall": (0.5309, 0.0025),
}


@pytest.mark.full
def test_golden_figures_with_the_real_weights():
    folder = Path(os.environ.get("TREAD_BENCH_GOLDEN", "golden"))
    samples, reference = (
        folder / name for name in ("admnet_guided_upsampled_imagenet256.npz", "VIRTUAL_imagenet256_labeled.npz")
    )
    if not (samples.is_file() and reference.is_file()):
        pytest.skip(f"TREAD_BENCH_GOLDEN must name a folder with the weights, {samples.name} and {reference.name}")
    names = ["inception_score", "fid", "sfid", "precision_recall"]
    found = evaluate(samples, reference, metrics=names, networks="inception", weights=folder)
    for row in found.rows:
        value, tolerance = GOLDEN[row.figure]
        assert row.value == pytest.approx(value, abs=tolerance)
