"""Laws of the quality metrics, and the whole path against torch-fidelity's own."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset
from torch_fidelity import FeatureExtractorBase, calculate_metrics
from torch_fidelity.registry import FEATURE_EXTRACTORS_REGISTRY

from tread_bench.core.config.choices import DEFAULT_DATA
from tread_bench.core.config.metrics import Metrics
from tread_bench.core.config.suite import Cell
from tread_bench.core.errors import UserError
from tread_bench.data.source import DataSource, to_uint8
from tread_bench.measure.quality import feature_store
from tread_bench.measure.quality import reference as reference_module
from tread_bench.measure.quality.features import Extractor
from tread_bench.measure.quality.fid.metric import statistics_to_fid
from tread_bench.measure.quality.fingerprint import protocol, protocol_fingerprint
from tread_bench.measure.quality.networks.classifier.network import DIGITS_WEIGHTS, ClassifierFeatures, open_classifier
from tread_bench.measure.quality.reference import Reference, reference_of, reference_of_set
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric
from tread_bench.measure.quality.statistics import (
    FeatureStatistics,
    Gaussian,
    Statistics,
    summed,
)
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
    pooled, spatial = summed(extractor.features(pixels, has_spatial) for pixels in batches)
    found = {}
    for metric in metrics:
        found |= metric.figures(ImageRecords(pooled, spatial=spatial), reference)
    return found


class Pixels(Dataset[Tensor]):
    """What torch-fidelity takes: uint8 (3, H, W), one by one."""

    def __init__(self, pixels: Tensor) -> None:
        self.pixels = pixels.expand(-1, 3, -1, -1)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> Tensor:
        return self.pixels[index]


class Digits(FeatureExtractorBase):
    """The digits classifier with torch-fidelity's interface, in float64, so that its sums are float64 like ours."""

    def __init__(self, name: str, features_list: list[str], **unused: Any) -> None:
        super().__init__(name, features_list)
        self.network = ClassifierFeatures(name, DIGITS_WEIGHTS)

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        provided = dict(zip(("features", "logits"), self.network(pixels), strict=True))
        return tuple(provided[name].double() for name in self.features_list)

    @staticmethod
    def get_provided_features_list() -> tuple[str, ...]:
        return "features", "logits"

    @staticmethod
    def get_default_feature_layer_for_metric(metric: str) -> str:
        return "logits" if metric == "isc" else "features"

    @staticmethod
    def can_be_compiled() -> bool:
        return True

    @staticmethod
    def get_dummy_input_for_compile() -> Tensor:
        return torch.zeros(1, 3, 8, 8, dtype=torch.uint8)


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return open_classifier(DIGITS_WEIGHTS)


@pytest.fixture(scope="module")
def noisy(digits: DataSource) -> Tensor:
    """200 held-out digits with some noise: neither the reference nor far from it."""
    noise = torch.randn(200, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return to_uint8(digits.held_out.images(np.arange(200)) + 0.3 * noise)


def gaussian(count: int, dims: int, seed: int) -> Tensor:
    return torch.randn(count, dims, generator=torch.Generator().manual_seed(seed))


def statistics(features: Tensor, batch: int = 1000) -> FeatureStatistics:
    result = FeatureStatistics(features.shape[1])
    for part in features.split(batch):
        result.add(part)
    return result


def opened(**settings: Any) -> list[OpenMetric]:
    """The metrics of generated images, as a suite's `metrics` sets them."""
    metrics = Metrics(**settings)
    return [OpenMetric.of(options) for options in metrics.measured(DEFAULT_DATA)]


def test_the_distance_of_two_gaussians_is_the_closed_form() -> None:
    """Of diagonal covariances: |m1 - m2|^2 + sum (s1 - s2)^2 (Dowson and Landau 1982)."""
    first, second = torch.tensor([1.0, 2.0, 0.5]).double(), torch.tensor([3.0, 1.0, 0.5]).double()
    mean = torch.tensor([0.3, -1.0, 2.0]).double()
    a, b = Gaussian(torch.zeros(3).double(), first.square().diag()), Gaussian(mean, second.square().diag())
    expected = mean.square().sum() + (first - second).square().sum()
    assert statistics_to_fid(a, b) == pytest.approx(float(expected), rel=1e-9)


def torch_fidelitys(fake: Tensor, real: Tensor, network: str, **settings: Any) -> dict[str, float]:
    """What its own path gives, by our names."""
    found = calculate_metrics(
        input1=Pixels(fake),
        input2=Pixels(real),
        feature_extractor=network,
        **{**dict.fromkeys(("isc", "fid", "kid", "prc", "save_cpu_ram"), True), "cuda": False},
        **settings,
        cache=False,
        verbose=False,
    )
    return {key: found[theirs] for key, theirs in KEYS.items()}


def reference_to(real: Tensor, network: Extractor) -> Reference:
    has_spatial = network.spatial_dims is not None
    sums = summed(network.features(part, has_spatial) for part in real.split(250))
    return Reference(sums.pooled, spatial=sums.spatial, sha256="")


def test_the_whole_path_agrees_with_torch_fidelity(
    extractor: Extractor, digits: DataSource, noisy: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FEATURE_EXTRACTORS_REGISTRY, "digits-classifier", Digits)
    real = digits.train.uint8(np.arange(400))
    expected = torch_fidelitys(noisy, real, "digits-classifier", kid_subset_size=100, kid_subsets=20)
    got = evaluate_images(noisy.split(64), extractor, reference_to(real, extractor), opened(kid_subsets=20))
    assert {key: got[key] for key in KEYS} == pytest.approx(expected, rel=1e-6)  # features are in float32
    assert got["fid"] > 1


def test_a_large_reference_keeps_evenly_spaced_features(
    extractor: Extractor, digits: DataSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = reference_of(digits, extractor).statistics
    monkeypatch.setattr(reference_module, "REFERENCE_FEATURES", 500)
    some = reference_of(digits, extractor).statistics
    assert every is not None and some is not None and every.num_kept == 1438
    assert torch.equal(some.features, every.features[::3])
    assert torch.equal(some.covariance, every.covariance)


def test_cells_that_need_a_reference_at_the_same_time_compute_it_once(
    extractor: Extractor, digits: DataSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []

    def slowly(*of: Any) -> Any:
        computed.append(1)
        time.sleep(0.2)
        return summed(*of)

    monkeypatch.setattr(feature_store, "summed", slowly)
    with ThreadPoolExecutor(8) as cells:
        found = [cells.submit(reference_of, digits, extractor) for _ in range(8)]
    assert {one.result().statistics.count for one in found} == {1438}
    assert len(computed) == 1


def test_statistics_of_two_kinds_of_gpu_are_kept_apart(monkeypatch: pytest.MonkeyPatch, digits: DataSource) -> None:
    class OnAGpu(Extractor):
        @property
        def device(self) -> torch.device:
            return torch.device("cuda:0")

    extractor = OnAGpu("one", torch.nn.Identity(), "0" * 64, 4)
    stored, paths = Statistics(FeatureStatistics(4)), []
    monkeypatch.setattr(feature_store, "load_statistics", lambda path: paths.append(path) or stored)
    for name in ("NVIDIA A100", "NVIDIA A100", "NVIDIA H200"):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        reference_of(digits, extractor)
    first, again, other = paths
    assert first == again != other


def test_the_fingerprint_is_canonical() -> None:
    assert protocol_fingerprint(a=1, b=[2.5, None]) == protocol_fingerprint(b=[2.5, None], a=1)
    assert protocol_fingerprint(a=1) == "015abd7f5cc5"  # printf '{"a":1}' | sha256sum


def test_what_moves_a_figure_moves_the_fingerprint(extractor: Extractor, digits: DataSource, tmp_path: Path) -> None:
    content = bytearray(DIGITS_WEIGHTS.read_bytes())
    content[-1] ^= 1
    (tmp_path / "changed.safetensors").write_bytes(content)
    changed = open_classifier(tmp_path / "changed.safetensors")
    reference = reference_of(digits, extractor)
    variants = [
        {},
        {"metrics": {"protocol": "adm"}},
        {"metrics": {"pixels": "truncate"}},
        {"metrics": {"also": {"name": "fid_infinity", "smallest": 100}}},
        {"metrics": {"num_samples": 256}},
        {"metrics": {"ema": False}},
        {"metrics": {"kid_subsets": 51}},
        {"metrics": {"neighbours": 5}},
        {"sampling": {"steps": 12}},
        {"sampling": {"sampler": "heun"}},
    ]
    cells = [Cell.model_validate({**CELL, **variant}) for variant in variants]
    prints = [protocol(cell, extractor, reference)[0] for cell in cells]
    prints += [
        protocol(cells[0], changed, reference)[0],
        protocol(cells[0], extractor, Reference(reference.statistics, sha256="0" * 64))[0],
    ]
    assert len(set(prints)) == len(prints)


def test_the_fingerprint_of_a_cell_is_that_of_earlier_versions(extractor: Extractor, digits: DataSource) -> None:
    """Figures of the same protocol stay comparable with those that were recorded before."""
    reference = reference_of(digits, extractor)
    settings = {"num_samples": 300, "kid_subset_size": 50, "neighbours": 5, "ema": False}
    cells = (CELL, {**CELL, "metrics": settings, "sampling": {"sampler": "heun", "steps": 12}})
    found = [protocol(Cell.model_validate(cell), extractor, reference)[0] for cell in cells]
    assert found == PINNED


def test_fid_of_fewer_images_than_features_has_a_protocol_of_its_own(extractor: Extractor, digits: DataSource) -> None:
    """There, its linear algebra changed it by more than rounding."""
    reference = reference_of(digits, extractor)
    versions = []
    for count in (64, 65):
        cell = Cell.model_validate({**CELL, "metrics": {"num_samples": count, "kid_subset_size": 50}})
        versions.append(protocol(cell, extractor, reference)[1]["definition"].rpartition(", ")[2])
    assert versions == ["2", "1"]


def test_what_is_not_measured_is_said_with_its_reason(extractor: Extractor, digits: DataSource) -> None:
    fingerprint, details = protocol(Cell.model_validate(CELL), extractor, reference_of(digits, extractor))
    reason = "needs spatial features, and feature network digits-classifier has none"
    assert details["not_measured"] == {"sFID": reason}
    followed = {key: value for key, value in details.items() if key != "not_measured"}
    assert protocol_fingerprint(**followed) == fingerprint


@pytest.mark.parametrize(
    ("name", "count", "caution"),
    [
        ("torch-fidelity", 127, "FID from 127 samples of 64 features, fewer than 128: biased upwards"),
        ("torch-fidelity", 128, None),
        ("adm", 49_999, "FID, IS, Precision and Recall from 49,999 samples: published figures are from 50,000"),
        ("adm", 50_000, None),
    ],
)
def test_few_samples_are_said_beside_the_figure(
    name: str, count: int, caution: str | None, extractor: Extractor, digits: DataSource
) -> None:
    cell = Cell.model_validate({**CELL, "metrics": {"num_samples": count, "protocol": name}})
    assert protocol(cell, extractor, reference_of(digits, extractor))[1].get("caution") == caution


def reference_file(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return str(path)


def test_images_of_a_file_take_the_place_of_those_of_the_data(
    extractor: Extractor, digits: DataSource, noisy: Tensor, tmp_path: Path
) -> None:
    images = digits.train.uint8(np.arange(len(digits.train))).permute(0, 2, 3, 1).numpy()
    file = reference_file(tmp_path / "reference.npz", arr_0=images, arr_1=digits.train.classes)
    given = reference_of_set(open_reference(file), extractor)
    own = reference_of(digits, extractor)
    found = [evaluate_images([noisy], extractor, one, opened()) for one in (given, own)]
    assert found[0] == found[1]
    assert given.count == own.count and given.sha256 != own.sha256


def test_of_a_large_file_images_are_drawn_so_that_its_order_is_not_seen(
    extractor: Extractor, digits: DataSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every second image of these has an even label."""
    monkeypatch.setattr(reference_module, "REFERENCE_FEATURES", 100)
    classes = digits.train.classes
    order = np.stack([np.flatnonzero(classes % 2 == parity)[:100] for parity in (0, 1)], axis=1).ravel()
    images = digits.train.uint8(order)
    file = reference_file(tmp_path / "r.npz", arr_0=images.permute(0, 2, 3, 1).numpy(), arr_1=classes[order])
    given = reference_of_set(open_reference(file), extractor)
    kept = np.sort(np.random.default_rng(2020).permutation(200)[:100])
    assert given.statistics is not None
    assert torch.equal(given.statistics.features, extractor.features(images).pooled[kept])
    assert set(classes[order][kept]) == set(range(10))
    assert given.count == 200

    # The protocol says so, and only where not all are compared.
    cell = Cell.model_validate(CELL)
    stated = protocol(cell, extractor, given)[1]["reference_features"]
    assert stated == "100 for KID, precision and recall, drawn by seed 2020"
    monkeypatch.setattr(reference_module, "REFERENCE_FEATURES", 200)
    every = reference_of_set(open_reference(file), extractor)
    assert every.num_kept == 200
    assert protocol(cell, extractor, every)[1]["reference_features"].startswith("at most ")


def test_statistics_of_a_file_are_those_of_the_network_that_they_name(
    extractor: Extractor, digits: DataSource, noisy: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = reference_of(digits, extractor).statistics
    assert own is not None
    arrays = {"mu": own.mean.numpy(), "sigma": own.covariance.numpy()}
    file = open_reference(reference_file(tmp_path / "statistics.npz", **arrays))
    network = Extractor("inception", extractor.network, "0" * 64, extractor.dims)
    given = reference_of_set(file, network)
    assert given.statistics is None and given.published is not None
    fid = OpenMetric.of(Metrics().of_samples[0])
    found = evaluate_images([noisy], network, given, [fid])["fid"]
    assert found == pytest.approx(evaluate_images([noisy], extractor, reference_of(digits, extractor), [fid])["fid"])
    lacking = {metric.family.name: given.lacks(metric.family) for metric in opened()}
    assert lacking["fid"] == lacking["inception_score"] == ""
    assert lacking["kid"] == lacking["precision_recall"] == "there are no images of the reference, only statistics"
    with pytest.raises(UserError, match="none of feature network digits-classifier, and no images"):
        reference_of_set(file, extractor)
    with pytest.raises(UserError, match=r"its statistics of inception are of 64 features .*, and this network has 9"):
        reference_of_set(file, Extractor("inception", extractor.network, "0" * 64, dims=9))

    # Beside other weights they are doubted, and only they.
    monkeypatch.setattr("tread_bench.measure.quality.fingerprint.doubtful_weights", lambda _: "doubted")
    cell = Cell.model_validate(CELL)
    cautions = [protocol(cell, network, one)[1].get("caution", "") for one in (given, reference_of(digits, extractor))]
    assert ["doubted" in caution for caution in cautions] == [True, False]


def test_what_moves_no_figure_leaves_the_fingerprint(extractor: Extractor, digits: DataSource) -> None:
    reference = reference_of(digits, extractor)
    same = [
        {},
        {"metrics": {"batch": 32}},
        {"routes": "2:8@0.5", "method": "tread"},
        {"training": {"iterations": 9}},
        {"sampling": {"guidance": "cfg", "guidance_scale": 1.5}},  # what a study of guidance compares
    ]
    prints = {protocol(Cell.model_validate({**CELL, **variant}), extractor, reference)[0] for variant in same}
    assert len(prints) == 1
