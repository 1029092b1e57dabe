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
from tread_bench.core.config.metrics import Metrics, in_protocol
from tread_bench.core.describe.metrics import metrics
from tread_bench.measure.quality.features import images_to_features
from tread_bench.measure.quality.fid.metric import features_to_fid, statistics_to_fid
from tread_bench.measure.quality.inception_score.metric import logits_to_inception_score
from tread_bench.measure.quality.networks.inception.extractor import open_inception
from tread_bench.measure.quality.precision_recall import metric as precision_recall
from tread_bench.measure.quality.precision_recall.metric import features_to_precision_recall
from tread_bench.measure.quality.statistics import Gaussian, features_to_statistics
from tread_bench.measure.sets.reference import open_reference
from tread_bench.measure.sets.samples import open_samples


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


def test_sfid_is_that_of_adm_and_channels_first_are_another_quantity():
    random = np.random.default_rng(0)
    profile = random.standard_normal((1, 9, 5, 5))
    maps = [np.maximum(0, random.standard_normal((600, 9, 5, 5)) + profile + shift) for shift in (0.0, 0.1)]
    samples, reference = (adm.spatial(part.astype(np.float32)) for part in maps)
    expected = adm.frechet_distance(adm.statistics(samples), adm.statistics(reference))
    assert fid(samples, reference) == pytest.approx(expected, rel=1e-5)
    channels_first = maps[0].astype(np.float32).reshape(600, -1)[:, : samples.shape[1]]
    assert fid(channels_first, reference) > 2 * expected


def test_statistics_of_batches_are_those_of_the_whole():
    samples, reference = correlated(900, 32, 0, shift=0.1), correlated(900, 32, 1)
    batches = features_to_statistics(torch.from_numpy(part) for part in np.array_split(samples, 7))
    expected = fid(samples, reference)
    assert statistics_to_fid(batches, features_to_statistics(torch.from_numpy(reference))) == pytest.approx(
        expected, rel=1e-10
    )
    whole = features_to_statistics(torch.from_numpy(samples))
    assert torch.allclose(batches.covariance, whole.covariance, rtol=1e-12, atol=1e-14)


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


def test_the_protocol_of_torch_fidelity_has_its_defaults_and_cells_their_own():
    kid, shares = (in_protocol(name, "torch-fidelity") for name in ("kid", "precision_recall"))
    assert (kid.subsets, kid.subset_size) == (DEFAULTS["kid_subsets"], DEFAULTS["kid_subset_size"]) == (100, 1000)
    assert (shares.neighbours, shares.distances) == (DEFAULTS["prc_neighborhood"], "float64")
    of_cells = {metric.name: metric for metric in Metrics().standard}["kid"]
    assert (of_cells.subsets, of_cells.subset_size) == (50, 100)


def test_the_protocol_of_adm_sets_its_forms():
    chosen = {name: in_protocol(name, "adm") for name in metrics()}
    assert (chosen["inception_score"].chunk, chosen["precision_recall"].distances) == (5000, "float16")
    default = {name: in_protocol(name, "torch-fidelity") for name in metrics()}
    differing = {name for name in chosen if chosen[name] != default[name]}
    assert differing == {"inception_score", "precision_recall", "kid"}  # of which ADM has none


@pytest.mark.gpu
def test_figures_on_a_gpu_are_those_on_the_cpu_but_for_rounding():
    samples, reference = correlated(800, 96, 0, shift=0.1), correlated(900, 96, 1)
    here = [torch.from_numpy(part) for part in (samples, reference)]
    there = [part.cuda() for part in here]
    distances = [statistics_to_fid(*map(features_to_statistics, sets)) for sets in (here, there)]
    assert distances[1] == pytest.approx(distances[0], rel=1e-9)
    assert features_to_fid(*there) == pytest.approx(features_to_fid(*here), rel=1e-9)
    for precision in ("float16", "float32"):
        found = [features_to_precision_recall(*sets, distances=precision) for sets in (here, there)]
        assert found[1].precision.value == pytest.approx(found[0].precision.value, abs=2 / 800)
        assert found[1].recall.value == pytest.approx(found[0].recall.value, abs=2 / 900)
    logits = here[0] * 3
    assert logits_to_inception_score(logits.cuda()).value == pytest.approx(logits_to_inception_score(logits).value)


# With real weights: lavinal712/ADM-evaluation-suite-pytorch's table, and the tolerances of a right port.
GOLDEN = {
    "admnet_guided_upsampled_imagenet256.npz": (
        "VIRTUAL_imagenet256_labeled.npz",
        {"is": 215.837, "fid": 3.94256, "sfid": 6.140434, "precision": 0.82650, "recall": 0.5309},
    ),
    "admnet_guided_imagenet128.npz": (
        "VIRTUAL_imagenet128_labeled.npz",
        {"is": 141.4767, "fid": 2.973289, "sfid": 5.094564, "precision": 0.78138, "recall": 0.5929},
    ),
}
TOLERANCES = {"is": 1e-3, "fid": 0.002, "sfid": 0.002, "precision": 0.0015, "recall": 0.0025}  # of the score: relative
WEIGHTS = "weights-inception-2015-12-05-6726825d.pth"


@pytest.mark.full
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_figures_with_the_real_weights(name):
    reference_name, expected = GOLDEN[name]
    folder = Path(os.environ.get("TREAD_BENCH_GOLDEN", ""))
    missing = [file for file in (WEIGHTS, name, reference_name) if not (folder / file).is_file()]
    if "TREAD_BENCH_GOLDEN" not in os.environ or missing:
        pytest.skip(f"TREAD_BENCH_GOLDEN must name a folder with {WEIGHTS}, {name} and {reference_name}")

    # Features of the samples, and of the reference's own images.
    device = "cuda" if torch.cuda.is_available() else "cpu"
    extractor = open_inception(folder / WEIGHTS).to(device)
    samples, reference = open_samples(folder / name), open_reference(folder / reference_name)
    found = images_to_features(samples.batches(extractor.batch), extractor, spatial=True)
    kept = images_to_features(reference.images.batches(extractor.batch), extractor)

    # The five figures.
    shares = features_to_precision_recall(found.pooled.to(device), kept.pooled.to(device))
    figures = {
        "is": logits_to_inception_score(found.logits).value,
        "fid": statistics_to_fid(features_to_statistics(found.pooled), reference.stored["inception"]),
        "sfid": statistics_to_fid(features_to_statistics(found.spatial), reference.stored["inception_spatial"]),
        "precision": shares.precision.value,
        "recall": shares.recall.value,
    }
    for figure, value in figures.items():
        tolerance = TOLERANCES[figure] * (expected[figure] if figure == "is" else 1)
        assert value == pytest.approx(expected[figure], abs=tolerance), figures
