"""Laws of the quality metrics, and the whole path against torch-fidelity's own."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
from torch_fidelity.metric_isc import isc_features_to_metric
from torch_fidelity.metric_kid import kid_features_to_metric
from torch_fidelity.metric_prc import prc_features_to_metric

from tread_bench.core.config.choices import DEFAULT_DATA
from tread_bench.core.config.metrics import Metrics
from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import UserError
from tread_bench.data.source import ImageSet, to_uint8
from tread_bench.measure.quality import feature_store
from tread_bench.measure.quality import reference as reference_module
from tread_bench.measure.quality.feature_store import features_of
from tread_bench.measure.quality.features import Extractor, images_to_features, machine_of
from tread_bench.measure.quality.fingerprint import protocol, protocol_fingerprint
from tread_bench.measure.quality.networks.classifier.network import DIGITS_WEIGHTS, open_classifier
from tread_bench.measure.quality.reference import reference_of, reference_of_set
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric
from tread_bench.measure.quality.statistics import summed
from tread_bench.measure.sets.reference import open_reference

KEYS = {
    "fid": "frechet_inception_distance",
    "kid": "kernel_inception_distance_mean",
    "inception_score": "inception_score_mean",
    "precision": "precision",
    "recall": "recall",
}
CELL = {"backbone": "DiT-S/2", "training": {"iterations": 1}}
PINNED = ["cff813b9b6a1", "ff2d3a540b8c"]  # fingerprints of the version before spatial features


def evaluate_images(batches, extractor, reference, metrics):
    """Figures of all metrics of generated images."""
    has_spatial = extractor.spatial_dims is not None
    seen = summed((extractor.features(pixels, has_spatial) for pixels in batches), np.arange(sum(map(len, batches))))
    kept = {"features": seen.features, "logits": seen.logits, "spatial": seen.spatial}
    found = {}
    for metric in metrics:
        found |= metric.figures(ImageRecords(moments=seen.pooled, **kept), reference)
    return found


@pytest.fixture(scope="module")
def extractor():
    return open_classifier(DIGITS_WEIGHTS)


@pytest.fixture(scope="module")
def noisy(digits):
    """200 held-out digits with some noise: neither the reference nor far from it."""
    noise = torch.randn(200, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return to_uint8(digits.held_out.images(np.arange(200)) + 0.3 * noise)


def opened(**settings):
    """The metrics of generated images, as a suite's `metrics` sets them."""
    metrics = Metrics(**settings)
    return [OpenMetric.of(options) for options in metrics.measured(DEFAULT_DATA)]


def test_figures_agree_with_torch_fidelity(extractor, digits, noisy):
    real = digits.train.uint8(np.arange(400))
    train = ImageSet(real.numpy(), digits.train.classes[:400])
    reference = reference_of(replace(digits, train=train), extractor)
    got = evaluate_images(noisy.split(64), extractor, reference, opened(kid_subsets=20))
    seen = [images_to_features(images.split(size), extractor) for images, size in ((noisy, 64), (real, 250))]
    features = [one.pooled.double() for one in seen]
    found = {
        **fid_statistics_to_metric(*map(fid_features_to_statistics, features), verbose=False),
        **isc_features_to_metric(seen[0].logits.double()),
        **kid_features_to_metric(*features, kid_subset_size=100, kid_subsets=20, verbose=False),
        **prc_features_to_metric(*features, save_cpu_ram=True, verbose=False),
    }
    expected = {key: found[theirs] for key, theirs in KEYS.items()}
    assert {key: got[key] for key in KEYS} == pytest.approx(expected, rel=1e-6)  # features are in float32
    assert got["fid"] > 1


def test_a_large_reference_keeps_evenly_spaced_features(extractor, digits, monkeypatch):
    every = reference_of(digits, extractor).seen
    monkeypatch.setattr(reference_module, "REFERENCE_FEATURES", 500)
    some = reference_of(digits, extractor).seen
    assert len(every.features) == 1438 and torch.equal(some.features, every.features[::3])
    assert torch.equal(some.pooled.covariance, every.pooled.covariance)


def test_cells_that_need_a_reference_at_the_same_time_compute_it_once(extractor, digits, monkeypatch):
    computed = []

    def slowly(*of):
        computed.append(1)
        time.sleep(0.2)
        return summed(*of)

    monkeypatch.setattr(feature_store, "summed", slowly)
    with ThreadPoolExecutor(8) as cells:
        found = [cells.submit(lambda: reference_of(digits, extractor).seen) for _ in range(8)]
    assert {one.result().pooled.count for one in found} == {1438}
    assert len(computed) == 1


def test_statistics_of_two_kinds_of_gpu_are_kept_apart(monkeypatch):
    names = iter(("NVIDIA A100", "NVIDIA H200"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: next(names))
    assert machine_of(torch.device("cuda:0")) != machine_of(torch.device("cuda:0"))


def test_the_fingerprint_is_canonical():
    assert protocol_fingerprint(a=1) == "015abd7f5cc5"  # printf '{"a":1}' | sha256sum
    assert protocol_fingerprint(a=1, b=[2.5, None]) == protocol_fingerprint(b=[2.5, None], a=1)


def test_what_moves_a_figure_moves_the_fingerprint(extractor, digits, tmp_path):
    content = bytearray(DIGITS_WEIGHTS.read_bytes())
    content[-1] ^= 1
    (tmp_path / "changed.safetensors").write_bytes(content)
    changed = open_classifier(tmp_path / "changed.safetensors")
    reference = reference_of(digits, extractor)
    variants = [
        {},
        {"metrics": {"protocol": "adm"}},
        {"metrics": {"also": {"name": "fid_infinity", "smallest": 100}}},
    ]
    cells = [Cell.model_validate({**CELL, **variant}) for variant in variants]
    prints = [protocol(cell, extractor, reference)[0] for cell in cells]
    prints += [
        protocol(cells[0], changed, reference)[0],
        protocol(cells[0], extractor, replace(reference, sha256="0" * 64))[0],
    ]
    assert len(set(prints)) == len(prints)


def test_the_fingerprint_of_a_cell_is_that_of_earlier_versions_whatever_moves_no_figure(extractor, digits):
    """Figures of the same protocol stay comparable with those that were recorded before."""
    settings = {"num_samples": 300, "kid_subset_size": 50, "neighbours": 5, "ema": False}
    variants = (
        {},
        {"metrics": settings, "sampling": {"sampler": "heun", "steps": 12}},
        {"metrics": {"batch": 32}, "routes": "2:8@0.5", "method": "tread", "training": {"iterations": 9}},
        {"sampling": {"guidance": "cfg", "guidance_scale": 1.5}},  # what a study of guidance compares
    )
    cells = [Cell.model_validate({**CELL, **variant}) for variant in variants]
    found = [protocol(cell, extractor, reference_of(digits, extractor))[0] for cell in cells]
    assert found == [*PINNED, PINNED[0], PINNED[0]]


def test_fid_of_fewer_images_than_features_has_a_protocol_of_its_own(extractor, digits):
    """There, its linear algebra changed it by more than rounding."""
    reference = reference_of(digits, extractor)
    versions = []
    for count in (64, 65):
        cell = Cell.model_validate({**CELL, "metrics": {"num_samples": count, "kid_subset_size": 50}})
        versions.append(protocol(cell, extractor, reference)[1]["definition"].rpartition(", ")[2])
    assert versions == ["2", "1"]


def test_what_is_not_measured_is_said_with_its_reason(extractor, digits):
    fingerprint, details = protocol(Cell.model_validate(CELL), extractor, reference_of(digits, extractor))
    reason = "needs spatial features, and feature network digits-classifier has none"
    assert details["not_measured"] == {"sFID": reason}
    followed = {key: value for key, value in details.items() if key != "not_measured"}
    assert protocol_fingerprint(**followed) == fingerprint


def test_few_samples_are_said_beside_the_figure(extractor, digits):
    reference = reference_of(digits, extractor)
    for name, count, caution in (
        ("torch-fidelity", 127, "FID from 127 samples of 64 features, fewer than 128: biased upwards"),
        ("torch-fidelity", 128, None),
        ("adm", 49_999, "FID, IS, Precision and Recall from 49,999 samples: published figures are from 50,000"),
        ("adm", 50_000, None),
    ):
        cell = Cell.model_validate({**CELL, "metrics": {"num_samples": count, "protocol": name}})
        assert protocol(cell, extractor, reference)[1].get("caution") == caution


def of_set(chosen, extractor, **settings):
    """A file as the reference of a cell."""

    def see(images, kept):
        return features_of(images, extractor, kept, 250, 250)

    return reference_of_set(chosen, extractor, extractor.name, see, **settings)


def reference_file(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


def test_images_of_a_file_take_the_place_of_those_of_the_data(extractor, digits, noisy, tmp_path):
    images = digits.train.uint8(np.arange(len(digits.train))).permute(0, 2, 3, 1).numpy()
    file = reference_file(tmp_path / "reference.npz", arr_0=images, arr_1=digits.train.classes)
    given, own = of_set(open_reference(file), extractor), reference_of(digits, extractor)
    found = [evaluate_images([noisy], extractor, one, opened()) for one in (given, own)]
    assert found[0] == found[1] and given.count == own.count and given.sha256 != own.sha256


def test_of_a_large_file_images_are_drawn_so_that_its_order_is_not_seen(extractor, digits, tmp_path):
    """Every second image of these has an even label."""
    classes = digits.train.classes
    order = np.stack([np.flatnonzero(classes % 2 == parity)[:100] for parity in (0, 1)], axis=1).ravel()
    images = digits.train.uint8(order)
    file = reference_file(tmp_path / "r.npz", arr_0=images.permute(0, 2, 3, 1).numpy(), arr_1=classes[order])
    given = of_set(open_reference(file), extractor, most=100)
    kept = np.sort(np.random.default_rng(2020).permutation(200)[:100])
    assert torch.equal(given.features, extractor.features(images).pooled[kept])
    assert set(classes[order][kept]) == set(range(10))
    assert given.count == 200


def test_statistics_of_a_file_are_those_of_the_network_that_they_name(extractor, digits, noisy, tmp_path, monkeypatch):
    own = reference_of(digits, extractor).moments
    arrays = {"mu": own.mean.numpy(), "sigma": own.covariance.numpy()}
    file = open_reference(reference_file(tmp_path / "statistics.npz", **arrays))
    network = Extractor("inception", extractor.network, "0" * 64, extractor.dims)
    given = of_set(file, network)
    assert given.features is None
    fid = OpenMetric.of(Metrics().of_samples[0])
    found = evaluate_images([noisy], network, given, [fid])["fid"]
    assert found == pytest.approx(evaluate_images([noisy], extractor, reference_of(digits, extractor), [fid])["fid"])
    lacking = {metric.family.name: given.lacks(metric.family) for metric in opened()}
    assert lacking["fid"] == lacking["inception_score"] == ""
    assert lacking["kid"] == lacking["precision_recall"] == "there are no images of the reference, only statistics"
    with pytest.raises(UserError, match=r"its statistics of inception are of 64 features .*, and this network has 9"):
        of_set(file, Extractor("inception", extractor.network, "0" * 64, dims=9))

    # Beside other weights they are doubted, and only they.
    monkeypatch.setattr("tread_bench.measure.quality.fingerprint.doubtful_weights", lambda _: "doubted")
    cell = Cell.model_validate(CELL)
    cautions = [protocol(cell, network, one)[1].get("caution", "") for one in (given, reference_of(digits, extractor))]
    assert ["doubted" in caution for caution in cautions] == [True, False]
