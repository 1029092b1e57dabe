"""What samples are compared with: published statistics, images and data sources, each checked before it is used."""

from __future__ import annotations

import re
import zipfile

import numpy as np
import pytest
import torch

from tests.measure.sets.test_samples import all_of, head, images, write_png
from tests.toy_suite import toy_suite, write_suite
from tread_bench.core.errors import UserError
from tread_bench.measure.sets.reference import open_reference


def statistics(dims, seed=0, count=40):
    features = np.random.default_rng(seed).normal(size=(count, dims))
    return features.mean(0), np.cov(features, rowvar=False)


# Statistics that were stored


def adm(path, **changes):
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


@pytest.mark.parametrize(
    ("without", "stored", "has_images"),
    [
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
    of_dinov2 = {"mu_dinov2": mean_d, "sigma_dinov2": covariance_d}
    np.savez(tmp_path / "img512.npz", mu=mean, sigma=covariance, **of_dinov2, num_images=count)
    found = open_reference(tmp_path / "img512.npz")
    assert {name: stored.count for name, stored in found.stored.items()} == {"inception": count, "dinov2": count}
    assert np.array_equal(found.stored["dinov2"].covariance, covariance_d)


EDM2S, PILLOWS = {"resize": "torch"}, {}


@pytest.mark.parametrize(
    ("said", "own", "other", "told"),
    [
        ({}, EDM2S, PILLOWS, "under the settings {'resize': 'torch'}, and this network has 4 under {};"),
        ({"resize_dinov2": "pillow"}, PILLOWS, EDM2S, "under the settings {}, and this network has 4 under {'resize'"),
    ],
)
def test_statistics_are_of_edm2s_resize_unless_a_file_says_another_and_no_other_network_takes_them(
    tmp_path, said, own, other, told
):
    mean, covariance = statistics(4)
    np.savez(tmp_path / "img512.npz", mu_dinov2=mean, sigma_dinov2=covariance, **said)
    found = open_reference(tmp_path / "img512.npz")
    assert found.gaussian("dinov2", 4, own) is found.stored["dinov2"] and found.gaussian("inception", 4, own) is None
    with pytest.raises(UserError, match=re.escape(f"img512: its statistics of dinov2 are of 4 features {told}")):
        found.gaussian("dinov2", 4, other)
    with pytest.raises(UserError, match=r"are of 4 features .*, and this network has 2,048"):
        found.gaussian("dinov2", 2048, own)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_covariance_of_fewer_images_than_features_is_one(tmp_path, order):
    mean, covariance = statistics(64, count=8)
    adm(tmp_path / "ref.npz", mu=mean, sigma=np.array(covariance, dtype=np.float32, order=order))
    stored = open_reference(tmp_path / "ref.npz").stored["inception"]
    assert np.array_equal(stored.covariance, covariance.astype(np.float32).astype(np.float64))


MEAN, COVARIANCE = statistics(6)
SKEWED = COVARIANCE + np.triu(np.full((6, 6), 0.1), 1)
INDEFINITE = np.eye(6) + 5 * (np.eye(6, k=1) + np.eye(6, k=-1))  # each variance is above zero
NO_COVARIANCE = "mu and sigma are no mean and covariance: all values are finite"
FORM = "a mean is of shape"
DINOV2 = {"mu_dinov2": MEAN, "sigma_dinov2": COVARIANCE}
BROKEN = {
    "a mean alone": ({"sigma": None}, "no array sigma in it; it has mu, mu_s"),
    "a covariance alone": ({"mu_s": None}, "no array mu_s in it"),
    "NaN in the mean": ({"mu": MEAN * np.nan}, NO_COVARIANCE),
    "not symmetric": ({"sigma": SKEWED}, NO_COVARIANCE),
    "not a covariance": ({"sigma": INDEFINITE}, NO_COVARIANCE),
    "integers": ({"mu": np.arange(6)}, FORM),
    "another length": ({"mu": MEAN[:5]}, r"mu is float64 of shape \(5,\), sigma float64 of shape \(6, 6\); " + FORM),
    "nothing": ({"mu": MEAN[:0], "sigma": COVARIANCE[:0, :0]}, FORM),
    "a count in words": ({"num_images": np.array("many")}, "num_images is many; it must be the number of images"),
    "a count of one": ({"num_images": np.array(1)}, "num_images is 1; it must be the number of images, 2 or more"),
    "another resize": ({**DINOV2, "resize_dinov2": np.array("pil")}, "resize_dinov2: unknown resize 'pil'"),
}


@pytest.mark.parametrize("kind", [*BROKEN, "larger than of any network"])
def test_broken_statistics_are_one_message(tmp_path, kind):
    changes, message = BROKEN.get(kind) or ({"sigma": None}, r"of shape \(8193, 8193\) has 537,001,992 bytes, more")
    adm(tmp_path / "ref.npz", **changes)
    if kind not in BROKEN:  # and a header without its array
        with zipfile.ZipFile(tmp_path / "ref.npz", "a") as archive:
            archive.writestr("sigma.npy", head((8193, 8193), "<f8"))
    with pytest.raises(UserError, match=message) as raised:
        open_reference(tmp_path / "ref.npz")
    assert str(raised.value).startswith(f"{tmp_path / 'ref.npz'}: ") and "\n" not in str(raised.value)


# Images


def test_a_data_source_is_a_reference_by_its_name_its_settings_or_a_suite(tmp_path, digits):
    write_suite(tmp_path, toy_suite(1, 1))
    found = [open_reference(text) for text in ("digits", "{name: digits}", tmp_path / "toy.yaml", "smoke")]
    assert [one.name for one in found] == ["digits", "digits", "toy", "smoke"]
    assert {one.sha256 for one in found} == {digits.train.sha256}
    images_found = found[0].images
    assert (images_found.count, images_found.shape) == (1438, (1, 8, 8))
    assert np.array_equal(torch.cat([*images_found.batches(300)]), digits.train.pixels)


def test_images_of_any_size_are_a_reference_through_a_data_source(tmp_path, monkeypatch):
    for number in range(20):
        write_png(tmp_path / "images" / f"{number}.png", images(1, (8 + number % 3, 9), seed=number)[0])
    settings = "{name: image_folder, train: [%s], held_out: [%s], image_size: 8, num_classes: 0}"
    found = open_reference(settings % ("$data_root/images", "$data_root/images"), tmp_path)
    assert (found.images.count, found.images.shape) == (20, (3, 8, 8))
    monkeypatch.chdir(tmp_path)
    assert open_reference(settings % ("images", "images")).sha256 == found.sha256


def test_samples_of_one_network_are_a_reference_for_another(tmp_path):
    np.save(tmp_path / "a.npy", images())
    found = open_reference(tmp_path / "a.npy")
    assert np.array_equal(all_of(found.images), images()) and found.sha256 == found.images.sha256 and not found.stored


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digit", "digit: no such file or folder .*unknown name 'digit'; did you mean 'digits'"),
        ("{name: image_folder}", "data.train is missing"),
        ("{name: random_latents, image_size: 4, num_classes: 2}", "data random_latents: no real images"),
        ("{name: image_folder, train: [nowhere], image_size: 8, num_classes: 0}", "nowhere: no such folder"),
    ],
)
def test_a_reference_that_is_not_there_is_one_message(text, message):
    with pytest.raises(UserError, match=message):
        open_reference(text)
