"""Sets of images against references: which statistics are used, what is refused, and on which device."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.measure.random_images import random_images
from tread_bench import evaluate
from tread_bench.core.config.metrics import in_protocol
from tread_bench.core.describe.metrics import Needs, extractors, metrics
from tread_bench.core.errors import UserError
from tread_bench.measure import set_evaluation
from tread_bench.measure.quality.features import Extractor, Features, open_extractor
from tread_bench.measure.quality.fid.metric import FrechetDistance
from tread_bench.measure.quality.fingerprint import doubtful_weights, protocol_details
from tread_bench.measure.quality.networks.classifier.network import DIGITS_WEIGHTS
from tread_bench.measure.quality.samples import Reference
from tread_bench.measure.quality.statistics import Gaussian, features_to_statistics
from tread_bench.measure.set_evaluation import SetEvaluator
from tread_bench.measure.sets.reference import ReferenceSet, open_reference
from tread_bench.measure.sets.samples import open_samples

COUNT = 6
METRICS = ("fid", "sfid", "precision_recall", "inception_score")


def write_images(path, seed, count=COUNT):
    np.savez(path, arr_0=random_images(count, seed=seed).permute(0, 2, 3, 1).numpy())
    return str(path)


def write_grey(path, seed=0, count=COUNT):
    np.savez(path, arr_0=np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 1), np.uint8))
    return str(path)


def evaluator(samples, reference, metrics, network, device="cpu", works=None, **settings):
    """On one network; `works` are those that are reported."""
    works = {} if works is None else works
    options = extractors.find(network).options.model_validate({"name": network, **settings})
    chosen = [in_protocol(name, "adm") for name in metrics]
    compared = open_reference(reference) if isinstance(reference, str) else reference

    def tell(name, done, of):
        works[name] = None

    return SetEvaluator(options, open_samples(samples), compared, chosen, None, device, COUNT, tell)


def measured(*asked, **settings):
    """The network, its rows by figure, and the works that were reported."""
    works = {}
    about, rows = evaluator(*asked, works=works, **settings)()
    return about, {row.figure: row for row in rows}, list(works)


def test_a_metric_reads_the_images_beside_a_network(tmp_path, monkeypatch):
    """Of `MeanOfBatches`, recall is how near the mean pixels are."""
    pair = metrics.find("precision_recall")
    builder, needs = "tests.measure.test_metric_contract:MeanOfBatches", pair.needs | {Needs.IMAGES}
    monkeypatch.setattr(pair.options, "family", replace(pair, builder=builder, needs=needs))
    samples, reference = write_grey(tmp_path / "a.npz"), write_grey(tmp_path / "b.npz", seed=1)
    pixels, real = (float(np.load(path)["arr_0"].mean()) for path in (samples, reference))
    _, rows, _ = measured(samples, reference, ("precision_recall",), "digits-classifier")
    assert rows["recall"].value == pytest.approx(1 - abs(pixels - real), rel=1e-5)


def test_what_no_set_has_is_not_read_and_one_reference_image_has_no_covariance(tmp_path, monkeypatch):
    sets = write_grey(tmp_path / "a.npz"), write_grey(tmp_path / "one.npz", count=1)
    asked = *sets, ("fid", "sfid"), "digits-classifier"
    found = evaluator(*asked)
    assert found.metrics == []
    assert found.reasons == ["fid (digits-classifier): 1 reference images: it needs 2 or more"]
    family = metrics.find("fid")
    monkeypatch.setattr(family.options, "family", replace(family, needs=family.needs | {Needs.CAPTIONS}))
    assert evaluator(*asked).reasons == ["fid (digits-classifier): there are no captions of the samples"]


def test_stored_statistics_refuse_what_reads_images_before_any_work(tmp_path):
    mine = write_grey(tmp_path / "mine.npz")
    network = extractors.find("digits-classifier").options()
    seen = open_extractor(network, (1, 8)).features(open_samples(mine).picture(COUNT))
    own = features_to_statistics(seen.pooled)
    stored = {"digits-classifier": Gaussian(own.mean, own.covariance, COUNT)}
    asked = mine, ReferenceSet("statistics", "0" * 64, None, stored), METRICS, "digits-classifier"
    told = "there are no images of the reference, only statistics"
    assert evaluator(*asked).reasons == [f"precision_recall (digits-classifier): {told}"]
    _, rows, works = measured(*asked)
    assert works == ["features of samples (digits-classifier on cpu)", "metrics (digits-classifier)"]
    assert abs(rows["fid"].value) < 1e-6 and set(rows) == {"fid", "inception_score"}  # no sFID on this network at all


def inception_statistics(weights, images):
    """As ADM's files store them."""
    seen = open_extractor(extractors.find("inception").options(weights=str(weights)), (3, 40)).features(images, True)
    own, spatial = features_to_statistics(seen.pooled), features_to_statistics(seen.spatial)
    stored = {"mu": own.mean, "sigma": own.covariance, "mu_s": spatial.mean, "sigma_s": spatial.covariance}
    return {name: tensor.numpy() for name, tensor in stored.items()}


def test_stored_statistics_go_before_those_of_images_which_are_read_for_the_rest(tmp_path, inception_weights):
    samples = write_images(tmp_path / "samples.npz", seed=0)
    arrays = inception_statistics(inception_weights, random_images(COUNT, seed=0))
    images = random_images(COUNT, seed=1).permute(0, 2, 3, 1).numpy()
    np.savez(tmp_path / "both.npz", arr_0=images, **arrays)
    both = str(tmp_path / "both.npz")
    network, rows, works = measured(samples, both, METRICS, "inception", weights=str(inception_weights))
    assert "features of reference (inception on cpu)" in works
    scale = float(arrays["sigma"].trace() + arrays["sigma_s"].trace())
    assert all(abs(rows[name].value) < 1e-6 * scale for name in ("fid", "sfid"))
    assert {"precision", "recall", "inception_score"} < set(rows)
    assert network.dims == 2048
    doubted = {name for name, row in rows.items() if "inception are not the published ones" in str(row.warnings)}
    assert doubted == {"fid", "sfid"}


@pytest.mark.parametrize("answer", [False, True, None])
def test_weights_are_doubted_that_are_known_not_to_be_the_published_ones(answer, tmp_path, monkeypatch):
    monkeypatch.setattr("tread_bench.measure.quality.fingerprint.is_as_published", lambda *_: answer)
    (tmp_path / "w.pth").write_bytes(b"weights")
    network = extractors.find("inception").options(weights=str(tmp_path / "w.pth"))
    assert bool(doubtful_weights(network)) == (answer is False)


def test_fingerprints_differ_where_a_figure_would_and_only_there(tmp_path):
    mine, others, real = (write_grey(tmp_path / f"{seed}.npz", seed) for seed in (0, 1, 2))
    fewer = write_grey(tmp_path / "fewer.npz", 3, count=10)

    def fingerprint(samples, reference, *more):
        return measured(samples, reference, ("fid", *more), "digits-classifier")[1]["fid"].fingerprint

    first = fingerprint(mine, real)
    assert fingerprint(others, real) == first  # other samples are what is compared
    assert fingerprint(mine, real, "precision_recall") == first  # whatever is measured beside it
    assert len({first, fingerprint(mine, others), fingerprint(fewer, real)}) == 3


@pytest.mark.parametrize(("opened", "title"), [("named", "FD-NAMED"), ("smaller", "FID (smaller)")])
def test_a_distance_has_the_name_of_its_protocol_on_the_network_of_that_protocol_alone(
    opened, title, tmp_path, monkeypatch
):
    mine = write_grey(tmp_path / "mine.npz")
    family = replace(extractors.find("digits-classifier"), name="named", distance="FD-NAMED")
    network = open_extractor(extractors.find("digits-classifier").options(), (1, 8))
    monkeypatch.setattr(extractors.find("digits-classifier").options, "family", property(lambda options: family))
    network.name = opened
    monkeypatch.setattr(set_evaluation, "open_extractor", lambda *_: network)
    about, rows, _ = measured(mine, mine, ("fid",), "digits-classifier")
    assert rows["fid"].title == about.distance == title
    assert all(title in warning for warning in rows["fid"].warnings)


def test_features_that_are_not_finite_and_figures_that_are_not_are_errors(tmp_path, monkeypatch):
    mine, real = write_grey(tmp_path / "mine.npz"), write_grey(tmp_path / "real.npz", 1)
    with monkeypatch.context() as patch:
        patch.setattr(FrechetDistance, "__call__", lambda *_: {"fid": math.nan})
        with pytest.raises(UserError, match=r"digits-classifier: FID came out as nan, .*with --metrics"):
            measured(mine, real, ("fid",), "digits-classifier")
    wrong = torch.full((COUNT, 64), math.inf)
    monkeypatch.setattr(Extractor, "features", lambda *_, **__: Features(wrong, wrong))
    with pytest.raises(UserError, match="feature network digits-classifier: features contain NaN"):
        evaluate(mine, real, metrics="fid", networks="digits-classifier")


def test_only_networks_that_resize_take_images_that_are_not_square(tmp_path, inception_weights):
    pixels = random_images(COUNT, seed=0).permute(0, 2, 3, 1).numpy()
    for name, images in (("wide", pixels[:, :25]), ("square", pixels)):
        np.savez(tmp_path / f"{name}.npz", arr_0=images)
    sets = str(tmp_path / "wide.npz"), str(tmp_path / "square.npz")
    with pytest.raises(UserError, match=r"images of 40x25 pixels; this feature network takes square ones"):
        evaluator(*sets, ("fid",), "trained-classifier", weights=str(DIGITS_WEIGHTS))
    _, rows, _ = measured(*sets, ("fid",), "inception", weights=str(inception_weights))
    assert rows["fid"].value > 0


def test_of_many_reference_images_some_are_compared_one_by_one_and_that_is_said(tmp_path, monkeypatch):
    sets = write_grey(tmp_path / "mine.npz"), write_grey(tmp_path / "real.npz", 1, count=12)
    network, rows, _ = measured(*sets, ("fid", "precision_recall"), "digits-classifier")
    assert network.protocol["reference_features"] == "all"
    monkeypatch.setattr(set_evaluation, "KEPT", 7)
    network, fewer, _ = measured(*sets, ("fid", "precision_recall"), "digits-classifier")
    assert network.protocol["reference_features"] == "7 for KID, precision and recall, drawn by seed 2020"
    told = "Precision and Recall from 7 of the 12 reference images, chosen at random"
    assert told in fewer["precision"].warnings and not any("chosen" in text for text in fewer["fid"].warnings)
    assert fewer["fid"].value == rows["fid"].value


def test_settings_of_the_network_are_in_the_protocol():
    extractor = Extractor("dinov2", torch.nn.Identity(), "0" * 64, 4)
    before = protocol_details(extractor, Reference(sha256="1" * 64, compared=""), [], 50, {})
    extractor.settings = {"resize": "torch"}
    after = protocol_details(extractor, Reference(sha256="1" * 64, compared=""), [], 50, {})
    assert after == {**before, "feature_network_settings": "resize: torch"} != before


@pytest.mark.gpu
def test_a_gpu_gives_the_same_figures(tmp_path, inception_weights):
    samples, reference = (write_images(tmp_path / f"{seed}.npz", seed, count=40) for seed in (0, 1))
    np.savez(reference, **np.load(reference), **inception_statistics(inception_weights, random_images(40, seed=1)))
    here, there = (
        measured(samples, reference, METRICS, "inception", device=device, weights=str(inception_weights))[1]
        for device in ("cpu", "cuda")
    )
    for name, row in here.items():
        tolerance = {"abs": 2 / 40} if name in ("precision", "recall") else {"rel": 1e-4}
        assert there[name].value == pytest.approx(row.value, **tolerance)
        assert there[name].fingerprint == row.fingerprint
