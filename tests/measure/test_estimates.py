"""Figures come from what they are said to, and intervals cover the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import t
from torch_fidelity.metric_isc import isc_features_to_metric

from tread_bench.core.describe.metrics import Needs, metrics
from tread_bench.measure.quality.fid.metric import features_to_fid, statistics_to_fid
from tread_bench.measure.quality.fid_infinity.metric import features_to_fid_infinity
from tread_bench.measure.quality.inception_score.family import SEED, SPLITS
from tread_bench.measure.quality.inception_score.metric import logits_to_inception_score
from tread_bench.measure.quality.kid.metric import features_to_kid
from tread_bench.measure.quality.precision_recall.metric import features_to_precision_recall
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric, Reference, too_few
from tread_bench.measure.quality.statistics import Gaussian, features_to_statistics

DIMS = 12
ENOUGH = 0.90  # of 120 intervals of 95 %: fewer have a probability of 1 %


def gaussian(count, seed, mean=0.0, scale=1.0, dims=DIMS):
    draws = np.random.default_rng(seed).standard_normal((count, dims)) * scale + mean
    return torch.from_numpy(draws.astype(np.float32))


def check_coverage(estimate, truth, repeats=120):
    """Intervals contain the truth, and are at most about twice as wide as they must be: 4 standard deviations."""
    found = [estimate(seed) for seed in range(repeats)]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= ENOUGH
    assert np.mean([one.high - one.low for one in found]) < 8 * np.std([one.value for one in found])


# mean and scale of the samples' Gaussian: near the reference, and far from it
@pytest.mark.parametrize(("mean", "scale"), [(0.1, 1.05), (0.5, 1.5)])
def test_fid_infinity_has_no_bias(mean, scale):
    truth = DIMS * (mean**2 + (scale - 1) ** 2)
    reference = Gaussian(torch.zeros(DIMS).double(), torch.eye(DIMS).double())

    values = []
    for seed in range(60):
        samples = gaussian(600, seed, mean, scale)
        values.append(features_to_fid_infinity(samples, reference, smallest=120, seed=seed).value)
    error = np.std(values, ddof=1) / np.sqrt(60)
    assert abs(np.mean(values) - truth) < 4 * error + 0.003
    biased = [statistics_to_fid(features_to_statistics(gaussian(600, s, mean, scale)), reference) for s in range(60)]
    assert np.mean(biased) - truth > 5 * abs(np.mean(values) - truth) > 0  # what the extrapolation removes


def test_fid_infinity_shows_its_fit():
    reference = features_to_statistics(gaussian(800, 1))
    samples = gaussian(500, 0, mean=0.2)
    found = features_to_fid_infinity(samples, reference, smallest=100, points=5)
    assert [size for size, _ in found.points] == [100, 200, 300, 400, 500]
    assert found.points[-1][1] == pytest.approx(statistics_to_fid(features_to_statistics(samples), reference), rel=1e-9)
    sizes, values = (np.array(column, float) for column in zip(*found.points, strict=True))
    assert found.value == pytest.approx(np.polyfit(1 / sizes, values, 1)[1], rel=1e-9)
    of_many = features_to_fid_infinity(gaussian(2000, 0), reference, smallest=100)
    assert of_many.points[0][0] == 200 and len(of_many.points) == 15  # a tenth


A, B = gaussian(30, 0), gaussian(30, 1)
LONGER = gaussian(30, 1, dims=DIMS + 1)
DIVERGED = A.index_fill(0, torch.tensor([3]), torch.nan)
OF_B = features_to_statistics(B)
PAIRS = {
    "FID": features_to_fid,
    "FID-infinity": lambda samples, other: features_to_fid_infinity(samples, features_to_statistics(other), 5, 3),
    "KID": lambda samples, other: features_to_kid(samples, other, 5, 3),
    "precision and recall": features_to_precision_recall,
}


@pytest.mark.parametrize(
    ("figure", "rule"),
    [
        (lambda: features_to_kid(A, B, 1), "100 subsets of 1: KID compares pairs"),
        (lambda: features_to_kid(A, B, 31), "a set of 30 images has no subsets of 31; make subset_size smaller"),
        (lambda: features_to_fid_infinity(A, OF_B, 16), "30 samples: extrapolation from subsets of 16 takes 32"),
        (lambda: features_to_kid(A, B, 5, 0), "0 subsets of 5: "),
        (lambda: features_to_fid(A[:1], B), "sets of 1 and 30 images: a covariance takes two or more"),
        (lambda: features_to_fid_infinity(A, OF_B, 1), "15 subsets from 1 images on: a line takes 3 or more"),
        (lambda: features_to_fid_infinity(A, OF_B, 5, 2), "2 subsets from 5 images on"),
        (lambda: features_to_precision_recall(A, B, 0), "k 0: a manifold takes one neighbour"),
        (lambda: features_to_precision_recall(A[:3], B, 3), "a set of 3 images has no 3 neighbours"),
        (lambda: logits_to_inception_score(A, 0), "30 logits in chunks of 0"),
        (lambda: logits_to_inception_score(A[:0]), "0 logits in chunks of 5000"),
    ],
)
def test_what_has_no_figure_is_refused_with_the_rule(figure, rule):
    with pytest.raises(ValueError, match=rule):
        figure()


@pytest.mark.parametrize("metric", PAIRS)
def test_features_that_cannot_be_compared_are_refused_by_every_metric_of_two_sets(metric):
    figure = PAIRS[metric]
    assert figure(A, B) is not None
    with pytest.raises(ValueError, match="features of 12 and 13 dimensions cannot be compared"):
        figure(A, LONGER)
    for pair in ((DIVERGED, B), (B, DIVERGED)):
        with pytest.raises(FloatingPointError, match="NaN or infinite"):
            figure(*pair)


def test_certain_classifications_leave_a_finite_inception_score_over_splits():
    """Probabilities of 0 and 1, a class that no image has, the others as often in each split: the score counts them."""
    classes = 4
    in_order = torch.arange(SPLITS * 3 * classes) % classes
    order = np.random.RandomState(SEED).permutation(len(in_order))
    labels = torch.empty_like(in_order)
    labels[torch.from_numpy(order)] = in_order
    for certainty in (800, 1e6):
        logits = certainty * torch.eye(classes + 1)[labels]
        found = opened("inception_score").estimates(records(gaussian(len(labels), 0), logits=logits), ALONE)
        score = found["inception_score"]
        assert score.value == pytest.approx(classes) and score.high - score.low == pytest.approx(0, abs=1e-9)


def test_the_interval_of_the_inception_score_is_student_s_over_ten_splits():
    """Their deviation divides by the number of splits."""
    logits = gaussian(500, 0, scale=2.0)
    found = opened("inception_score").estimates(records(logits, logits=logits), ALONE)["inception_score"]
    half = t.ppf(0.975, 9) * isc_features_to_metric(logits.double(), rng_seed=SEED)["inception_score_std"] / 3
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))


def test_the_interval_of_the_inception_score_covers_that_of_a_chunk():
    def estimate(seed, chunks=8):
        return logits_to_inception_score(gaussian(100 * chunks, seed, scale=2.0), chunk=100)

    truth = np.mean([estimate(10_000 + seed, chunks=40).value for seed in range(40)])
    check_coverage(estimate, truth)


def records(features, **others):
    moments = features_to_statistics(features)
    return ImageRecords(moments=moments, features=features, **others)


def opened(name, **options):
    return OpenMetric.of(metrics.find(name).options(**options))


NORMAL = Gaussian(torch.zeros(DIMS).double(), torch.eye(DIMS).double())
ALONE = Reference(sha256="", compared="", stored={Needs.STATISTICS: NORMAL})  # statistics without images
PLAIN = records(gaussian(200, 0))


@pytest.mark.parametrize(
    ("metric", "generated", "real", "lacking"),
    [
        (opened("fid_infinity", smallest=25), PLAIN, ALONE, ""),
        (opened("kid"), PLAIN, ALONE, "there are no images of the reference, only statistics"),
        (opened("sfid"), PLAIN, ALONE, "there are no spatial features of the samples"),
        (opened("sfid"), records(gaussian(50, 0), spatial=NORMAL), ALONE, "there are no spatial features of the ref"),
        (opened("inception_score"), PLAIN, ALONE, "the feature network has no logits"),
    ],
)
def test_a_metric_reads_what_the_sets_have_and_names_what_they_lack(metric, generated, real, lacking):
    if lacking:
        with pytest.raises(LookupError, match=f"metric {metric.family.name}: {lacking}"):
            metric.estimates(generated, real)
        return
    found = metric.estimates(generated, real)
    assert list(found) == [figure.name for figure in metric.family.figures]
    assert list(metric.figures(generated, real).values()) == [estimate.value for estimate in found.values()]


def test_images_are_counted_of_what_a_metric_reads_alone():
    """Of the reference, a covariance takes two."""
    assert too_few(opened("fid").options, 200, {Needs.FEATURES: 0, Needs.STATISTICS: 2}) == ""
    assert too_few(opened("fid_infinity").options, 10_000, {Needs.STATISTICS: 50}) == ""
    refusal = "1 reference images: it needs 2 or more"
    assert too_few(opened("sfid").options, 200, {Needs.STATISTICS: 1, Needs.SPATIAL: 1}) == refusal
