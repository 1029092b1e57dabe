"""Sets of images against references: which statistics are used, what is refused, and on which device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.measure.random_images import random_images
from tread_bench.core.config.metrics import in_protocol
from tread_bench.core.evaluations import EvaluatedFigure, EvaluatedNetwork
from tread_bench.core.extractors import find_extractor
from tread_bench.measure import set_evaluation
from tread_bench.measure.quality.features import open_extractor
from tread_bench.measure.quality.samples import ImageRecords, OpenMetric
from tread_bench.measure.quality.statistics import FeatureStatistics, Gaussian, features_to_statistics
from tread_bench.measure.set_evaluation import NetworkChoice, SetRequest, evaluate_sets, foreseen_refusals
from tread_bench.measure.sets.reference import ReferenceSet, open_reference
from tread_bench.measure.sets.samples import open_samples

COUNT = 12
METRICS = ("fid", "sfid", "precision_recall", "inception_score")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write_images(path: Path, seed: int, count: int = COUNT) -> str:
    np.savez(path, arr_0=random_images(count, seed=seed).permute(0, 2, 3, 1).numpy())
    return str(path)


def write_grey(path: Path, seed: int = 0, count: int = COUNT) -> str:
    np.savez(path, arr_0=np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 1), np.uint8))
    return str(path)


def request(
    samples: str, reference: str, metrics: Sequence[str], network: str, device: str = "cpu", **settings: object
) -> SetRequest:
    return SetRequest(
        samples=open_samples(samples),
        reference=open_reference(reference),
        metrics=[in_protocol(name, "adm") for name in metrics],
        networks=[NetworkChoice(find_extractor(network).options.model_validate({"name": network, **settings}))],
        device=device,
        batch=COUNT,
    )


def measured(asked: SetRequest) -> tuple[EvaluatedNetwork, dict[str, EvaluatedFigure], list[str]]:
    """The network, its rows by figure, and the works that were reported."""
    works: dict[str, None] = {}
    (network,), rows = evaluate_sets(asked, lambda name, done, of: works.update({name: None}))
    return network, {row.figure: row for row in rows}, list(works)


def test_stored_statistics_refuse_what_reads_images_before_any_work(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (COUNT, 8, 8, 1), np.uint8)
    np.savez(tmp_path / "mine.npz", arr_0=pixels)
    seen = open_extractor(find_extractor("digits-classifier").options(), (1, 8)).features(
        torch.from_numpy(pixels).permute(0, 3, 1, 2)
    )
    own = features_to_statistics(seen.pooled)
    stored = {"digits-classifier": Gaussian(own.mean, own.covariance, COUNT)}
    asked = replace(
        request(str(tmp_path / "mine.npz"), str(tmp_path / "mine.npz"), METRICS, "digits-classifier"),
        reference=ReferenceSet("statistics", "0" * 64, None, stored),
    )
    reasons = {metric.name: reason for metric, _, reason in foreseen_refusals(asked)}
    assert reasons.pop("precision_recall") == "there are no images of the reference, only statistics"
    assert reasons == {"fid": "", "inception_score": ""}  # sFID is not measured on this network at all
    _, rows, works = measured(asked)
    assert works == ["features of samples (digits-classifier on cpu)", "metrics (digits-classifier)"]
    assert abs(rows["fid"].value or 0) < 1e-6 and rows["recall"].refused and rows["inception_score"].value is not None


@pytest.mark.slow
def test_stored_statistics_go_before_those_of_images_and_spare_them(tmp_path: Path, inception_weights: Path) -> None:
    samples = write_images(tmp_path / "samples.npz", seed=0)
    extractor = open_extractor(find_extractor("inception").options(weights=str(inception_weights)), (3, 40))
    seen = extractor.features(random_images(COUNT, seed=0), spatial=True)
    assert seen.spatial is not None
    own, spatial = features_to_statistics(seen.pooled), features_to_statistics(seen.spatial)
    stored = {"mu": own.mean, "sigma": own.covariance, "mu_s": spatial.mean, "sigma_s": spatial.covariance}
    arrays = {name: tensor.numpy() for name, tensor in stored.items()}
    settings = {"weights": str(inception_weights)}

    # Statistics alone: distances to itself are 0, and what reads images is refused before any work.
    np.savez(tmp_path / "statistics.npz", **arrays)
    asked = request(samples, str(tmp_path / "statistics.npz"), METRICS, "inception", **settings)
    reasons = {metric.name: reason for metric, _, reason in foreseen_refusals(asked)}
    assert {name for name, reason in reasons.items() if reason} == {"precision_recall"}
    network, rows, works = measured(asked)
    assert works == ["features of samples (inception on cpu)", "metrics (inception)"]
    scale = float(own.covariance.trace() + spatial.covariance.trace())
    assert all(abs(rows[name].value or 0) < 1e-6 * scale for name in ("fid", "sfid"))
    assert rows["precision"].refused and rows["precision"].value is None
    assert network.dims == 2048 and network.device_effect == 0

    # Images of other content beside them: these are read for precision and recall alone.
    images = random_images(COUNT, seed=1).permute(0, 2, 3, 1).numpy()
    np.savez(tmp_path / "both.npz", arr_0=images, **arrays)
    _, both, works = measured(request(samples, str(tmp_path / "both.npz"), METRICS, "inception", **settings))
    assert works[0] == "features of reference (inception on cpu)"
    assert both["fid"].value == rows["fid"].value and both["sfid"].value == rows["sfid"].value
    assert both["precision"].value is not None and both["inception_score"].value == rows["inception_score"].value


def test_fingerprints_differ_where_a_figure_would_and_only_there(tmp_path: Path) -> None:
    grey = {name: tmp_path / f"{name}.npz" for name in ("mine", "others", "real", "fewer")}
    for seed, (name, path) in enumerate(grey.items()):
        pixels = np.random.default_rng(seed).integers(0, 256, (10 if name == "fewer" else COUNT, 8, 8, 1), np.uint8)
        np.savez(path, arr_0=pixels)

    def fingerprint(samples: str, reference: str, metrics: Sequence[str] = ("fid",)) -> str:
        asked = request(str(grey[samples]), str(grey[reference]), metrics, "digits-classifier")
        return measured(asked)[1]["fid"].fingerprint

    first = fingerprint("mine", "real")
    assert fingerprint("others", "real") == first  # other samples are what is compared
    assert fingerprint("mine", "real", ("fid", "precision_recall")) == first  # whatever is measured beside it
    assert len({first, fingerprint("mine", "others"), fingerprint("fewer", "real")}) == 3


@pytest.mark.parametrize(("opened", "title"), [("named", "FD-NAMED"), ("smaller", "FID (smaller)")])
def test_a_distance_has_the_name_of_its_protocol_on_the_network_of_that_protocol_alone(
    opened: str, title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(write_grey(tmp_path / "mine.npz"), write_grey(tmp_path / "mine.npz"), ("fid",), "digits-classifier")
    family = replace(find_extractor("digits-classifier"), name="named", distance="FD-NAMED")
    monkeypatch.setattr(NetworkChoice, "family", property(lambda choice: family))
    network = open_extractor(find_extractor("digits-classifier").options(), (1, 8))
    network.name = opened
    monkeypatch.setattr(set_evaluation, "open_extractor", lambda *_: network)
    about, rows, _ = measured(asked)
    assert rows["fid"].title == about.distance == title
    assert all(title in warning for warning in rows["fid"].warnings)


def test_features_that_are_not_finite_refuse_the_network_and_not_the_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "mine.npz", arr_0=np.zeros((COUNT, 8, 8, 1), np.uint8))

    def broken(*_: object, **__: object) -> None:
        raise FloatingPointError("features contain NaN or infinite values, so no metric can be computed")

    monkeypatch.setattr("tread_bench.measure.set_evaluation.FeatureStore.features", broken)
    asked = request(str(tmp_path / "mine.npz"), str(tmp_path / "mine.npz"), ("fid",), "digits-classifier")
    networks, (row,) = evaluate_sets(asked, lambda *_: None)
    assert networks == [] and "NaN" in row.refused


def test_a_reference_of_one_image_has_no_covariance_and_is_refused_before_any_work(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (COUNT, 8, 8, 1), np.uint8)
    np.savez(tmp_path / "mine.npz", arr_0=pixels)
    np.savez(tmp_path / "one.npz", arr_0=pixels[5:6])
    asked = request(str(tmp_path / "mine.npz"), str(tmp_path / "one.npz"), ("fid", "sfid"), "digits-classifier")
    ((_, _, reason),) = foreseen_refusals(asked)
    assert reason == "1 reference images: it needs 2 or more"
    networks, (row,) = evaluate_sets(asked, lambda *_: None)
    assert networks == [] and (row.figure, row.value, row.refused) == ("fid", None, reason)


@pytest.mark.parametrize("metric", ["fid", "sfid"])
def test_a_metric_refuses_statistics_of_one_image(metric: str) -> None:
    opened = OpenMetric.of(in_protocol(metric, "adm"))
    many, one = FeatureStatistics(4), FeatureStatistics(4)
    many.add(torch.rand(COUNT, 4))
    one.add(torch.rand(1, 4))
    generated, real = ImageRecords(many, spatial=many), ImageRecords(one, spatial=one)
    assert opened.refusal(generated, real) == "1 reference images: it needs 2 or more"
    assert opened.refusal(generated, generated) == ""


@pytest.mark.gpu
def test_a_gpu_gives_the_same_figures(tmp_path: Path, inception_weights: Path) -> None:
    samples, reference = (write_images(tmp_path / f"{seed}.npz", seed, count=40) for seed in (0, 1))
    settings = {"weights": str(inception_weights)}
    _, expected, _ = measured(request(samples, reference, METRICS, "inception", **settings))
    network, found, _ = measured(request(samples, reference, METRICS, "inception", "cuda", **settings))
    assert 0 < network.device_effect < 1e-3 and torch.cuda.is_available()
    for name, row in expected.items():
        assert found[name].value == pytest.approx(row.value, rel=1e-2, abs=0.05)
        assert found[name].fingerprint == row.fingerprint
