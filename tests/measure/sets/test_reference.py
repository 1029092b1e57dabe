"""What samples are compared with: published statistics, images and data sources, each checked before it is used."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.measure.sets.test_samples import all_of, images, write_png
from tread_bench.core.errors import UserError
from tread_bench.measure.sets.reference import open_reference
from tread_bench.measure.sets.write import write_samples_npz


def statistics(dims: int, seed: int = 0, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    features = np.random.default_rng(seed).normal(size=(count, dims))
    return features.mean(0), np.cov(features, rowvar=False)


# Statistics that were stored


def adm(path: Path, **changes) -> dict[str, np.ndarray]:
    """All arrays of ADM's files, with others in place of some; None leaves one out."""
    mean, covariance = statistics(6)
    mean_s, covariance_s = statistics(5, seed=1)
    found = {"mu": mean.astype(np.float32), "sigma": covariance, "mu_s": mean_s, "sigma_s": covariance_s}
    found = {name: value for name, value in {**found, "arr_0": images(), **changes}.items() if value is not None}
    np.savez(path, **found)
    return found


def test_statistics_and_images_of_adms_files_are_what_was_stored(tmp_path):
    written = adm(tmp_path / "ref.npz", arr_1=np.arange(11))
    found = open_reference(tmp_path / "ref.npz")
    assert (found.name, sorted(found.stored)) == ("ref", ["inception", "inception_spatial"])
    for features, mean, covariance in (("inception", "mu", "sigma"), ("inception_spatial", "mu_s", "sigma_s")):
        stored = found.stored[features]
        assert stored.mean.dtype == stored.covariance.dtype == torch.float64 and stored.count is None
        assert np.array_equal(stored.mean, written[mean].astype(np.float64))
        assert np.array_equal(stored.covariance, written[covariance])
    assert np.array_equal(all_of(found.images), written["arr_0"])
    assert found.images.labels.tolist() == list(range(11))


@pytest.mark.parametrize(
    ("without", "stored", "has_images"),
    [
        (("arr_0",), ["inception", "inception_spatial"], False),
        (("mu_s", "sigma_s"), ["inception"], True),
        (("mu_s", "sigma_s", "arr_0"), ["inception"], False),
        (("mu", "sigma", "mu_s", "sigma_s"), [], True),
    ],
)
def test_any_part_of_adms_files_will_do(tmp_path, without, stored, has_images):
    adm(tmp_path / "ref.npz", **dict.fromkeys(without))
    found = open_reference(tmp_path / "ref.npz")
    assert (sorted(found.stored), found.images is not None) == (stored, has_images)


@pytest.mark.parametrize("count", [2, 50])  # 2: the fewest images that have a covariance
def test_edm2s_statistics_have_their_count(tmp_path, count):
    (mean, covariance), (mean_d, covariance_d) = statistics(6), statistics(4, seed=2)
    np.savez(
        tmp_path / "img512.npz",
        mu=mean,
        sigma=covariance,
        mu_dinov2=mean_d,
        sigma_dinov2=covariance_d,
        num_images=count,
    )
    found = open_reference(tmp_path / "img512.npz")
    assert {name: stored.count for name, stored in found.stored.items()} == {"inception": count, "dinov2": count}
    assert np.array_equal(found.stored["dinov2"].covariance, covariance_d)


EDM2S, PILLOWS = {"resize": "torch"}, {}


@pytest.mark.parametrize(
    ("said", "own", "other", "told"),
    [
        ({}, EDM2S, PILLOWS, "{name: dinov2, resize: torch}, and this network is {name: dinov2};"),
        ({"resize_dinov2": "torch"}, EDM2S, PILLOWS, "{name: dinov2, resize: torch}, and this network"),
        ({"resize_dinov2": "pillow"}, PILLOWS, EDM2S, "{name: dinov2}, and this network is {name: dinov2, resize: tor"),
    ],
)
def test_statistics_are_of_edm2s_resize_unless_a_file_says_another_and_no_other_takes_them(
    tmp_path, said, own, other, told
):
    mean, covariance = statistics(4)
    np.savez(tmp_path / "img512.npz", mu_dinov2=mean, sigma_dinov2=covariance, **said)
    found = open_reference(tmp_path / "img512.npz")
    assert found.gaussian("dinov2", 4, own) is found.stored["dinov2"]
    with pytest.raises(UserError, match=re.escape(f"img512: mu_dinov2 and sigma_dinov2 are of {told}")) as raised:
        found.gaussian("dinov2", 4, other)
    assert "resize_dinov2" in str(raised.value)


def test_statistics_of_another_network_are_refused_by_its_length(tmp_path):
    adm(tmp_path / "ref.npz")
    found = open_reference(tmp_path / "ref.npz")
    assert found.gaussian("inception", 6, {}) is found.stored["inception"]
    assert found.gaussian("dinov2", 1024, {}) is None
    with pytest.raises(UserError, match="ref: mu and sigma are of 6 features where this network has 2,048"):
        found.gaussian("inception", 2048, {})


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_covariance_of_fewer_images_than_features_is_one(tmp_path, order):
    mean, covariance = statistics(64, count=8)
    adm(tmp_path / "ref.npz", mu=mean, sigma=np.array(covariance, dtype=np.float32, order=order))
    stored = open_reference(tmp_path / "ref.npz").stored["inception"]
    assert np.array_equal(stored.covariance, covariance.astype(np.float32).astype(np.float64))


def with_nan(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values.flat[3] = np.nan
    return values


MEAN, COVARIANCE = statistics(6)
SKEWED = COVARIANCE + np.triu(np.full((6, 6), 0.1), 1)
INDEFINITE = COVARIANCE - 2 * np.eye(6)
BROKEN = {
    "a mean alone": ({"sigma": None}, "no sigma, and mu and sigma belong together"),
    "a covariance alone": ({"mu_s": None}, "no mu_s, and mu_s and sigma_s belong together"),
    "NaN in the mean": ({"mu": with_nan(MEAN)}, "mu has 1 values that are NaN or infinite"),
    "NaN in the covariance": ({"sigma": with_nan(COVARIANCE)}, "sigma has 1 values that are NaN or infinite"),
    "infinity": ({"sigma": COVARIANCE * np.inf}, "sigma has 36 values that are NaN or infinite"),
    "not symmetric": ({"sigma": SKEWED}, r"sigma is not symmetric \(entries differ .* by up to 0\.1\)"),
    "not a covariance": ({"sigma": INDEFINITE}, r"sigma has the eigenvalue -1\.\d+, and a covariance has none below"),
    "negative variances": ({"sigma": -np.eye(6)}, "sigma has the eigenvalue -1,"),
    "integers": ({"mu": np.arange(6)}, "mu is int64 .*; statistics are float64 or float32"),
    "another length": ({"mu": MEAN[:5]}, r"sigma has shape \(6, 6\) where mu has 5 values"),
    "variances alone": ({"sigma": np.diag(COVARIANCE)}, r"sigma is float64 of shape \(6,\); expected \(d, d\)"),
    "a table": ({"mu": MEAN[None]}, r"mu is float64 of shape \(1, 6\); expected \(d,\)"),
    "nothing": ({"mu": MEAN[:0], "sigma": COVARIANCE[:0, :0]}, "with d from 1 to 8,192"),
    "too long": ({"mu": np.zeros(9000)}, "with d from 1 to 8,192"),
    "pickles": ({"mu": np.array([None])}, "mu holds Python objects"),
    "a count in words": ({"num_images": np.array("many")}, "num_images is str"),
    "another resize": (
        {"mu_dinov2": MEAN, "sigma_dinov2": COVARIANCE, "resize_dinov2": np.array("pil")},
        "resize_dinov2: unknown resize 'pil'",
    ),
    "a resize that is a number": (
        {"mu_dinov2": MEAN, "sigma_dinov2": COVARIANCE, "resize_dinov2": np.array(1)},
        r"resize_dinov2 is int64 of shape \(\), not one text",
    ),
    "a count of one": ({"num_images": np.array(1)}, "num_images is 1; a covariance is of two images or more"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_statistics_are_one_message(tmp_path, kind):
    changes, message = BROKEN[kind]
    adm(tmp_path / "ref.npz", **changes)
    with pytest.raises(UserError, match=message) as raised:
        open_reference(tmp_path / "ref.npz")
    lines = str(raised.value).splitlines()
    assert len(lines) == (2 if kind == "nothing" else 1)
    assert all(line.startswith(f"{tmp_path / 'ref.npz'}: ") for line in lines)


def test_all_mistakes_of_a_reference_are_reported_at_once(tmp_path):
    adm(tmp_path / "ref.npz", mu=with_nan(MEAN), mu_s=None, arr_0=images().astype(float))
    with pytest.raises(UserError) as raised:
        open_reference(tmp_path / "ref.npz")
    lines = str(raised.value).splitlines()
    for line, part in zip(lines, ("arr_0 is float64", "mu has 1 values", "no mu_s"), strict=True):
        assert part in line


def test_a_pickled_reference_says_how_to_convert_it(tmp_path):
    (tmp_path / "img512.pkl").write_bytes(pickle.dumps({"fid": {"mu": 0}}))
    with pytest.raises(UserError, match=r"img512\.pkl: holds Python objects .*store its arrays with numpy\.savez"):
        open_reference(tmp_path / "img512.pkl")


# Images


def test_a_data_source_is_a_reference_by_its_name_its_settings_or_a_suite(tmp_path, digits):
    (tmp_path / "toy.yaml").write_text(
        "name: toy\nrows: {dense: {}}\nbase:\n  backbone: {name: DiT, depth: 1, hidden: 8, heads: 1, patch: 4}\n"
        "  training: {iterations: 1, batch: 4}\n"
    )
    found = [open_reference(text) for text in ("digits", "{name: digits}", tmp_path / "toy.yaml", "smoke")]
    assert [one.name for one in found] == ["digits", "digits", "toy", "smoke"]
    assert {one.sha256 for one in found} == {digits.train.sha256}
    images_found = found[0].images
    assert (images_found.count, images_found.shape) == (1438, (1, 8, 8))
    assert np.array_equal(images_found.labels, digits.train.classes)
    for start in (0, 1000):
        assert np.array_equal(torch.cat([*images_found.batches(300, start)]), digits.train.pixels[start:])


def test_images_of_any_size_are_a_reference_through_a_data_source(tmp_path, monkeypatch):
    for number in range(20):
        write_png(tmp_path / "images" / f"{number}.png", images(1, (8 + number % 3, 9), seed=number)[0])
    settings = "{name: image_folder, train: [%s], held_out: [%s], image_size: 8, num_classes: 0}"
    found = open_reference(settings % ("$data_root/images", "$data_root/images"), tmp_path)
    assert (found.images.count, found.images.shape, found.images.labels) == (20, (3, 8, 8), None)
    monkeypatch.chdir(tmp_path)
    assert open_reference(settings % ("images", "images")).sha256 == found.sha256


def test_a_folder_may_hold_any_format_of_one_size(tmp_path):
    written = images()
    for number, image in enumerate(written):
        Image.fromarray(image).save(tmp_path / f"{number:02d}.{('png', 'bmp', 'tiff')[number % 3]}")
    assert np.array_equal(all_of(open_reference(tmp_path).images), written)


def test_samples_of_one_network_are_a_reference_for_another(tmp_path):
    pixels = torch.from_numpy(images()).permute(0, 3, 1, 2)
    write_samples_npz(tmp_path / "a.npz", pixels.split(4), 11, (3, 6, 5))
    assert np.array_equal(all_of(open_reference(tmp_path / "a.npz").images), images())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digit", "digit: no such file or folder .*unknown name 'digit'; did you mean 'digits'"),
        ("{name: digit}", "unknown data 'digit'; did you mean 'digits'"),
        ("{name: image_folder}", "data.train is missing"),
        ("{name: [}", "YAML|did not find|expected"),
        ("{name: random_latents, image_size: 4, num_classes: 2}", "data random_latents: no real images"),
        ("{name: image_folder, train: [nowhere], image_size: 8, num_classes: 0}", "nowhere: no such folder"),
    ],
)
def test_a_reference_that_is_not_there_is_one_message(text, message):
    with pytest.raises(UserError, match=message):
        open_reference(text)
