"""The folder of weights: where it is, what is found in it, and what is said where something is missing."""

from __future__ import annotations

import pytest

from tread_bench.core.describe.metrics import Published, extractors
from tread_bench.core.errors import UserError
from tread_bench.measure.weights_folder import find_weights, is_as_published, weights_folder, with_weights

INCEPTION, DINOV2 = extractors.find("inception"), extractors.find("dinov2")


def test_the_option_comes_before_the_variable_before_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TREAD_BENCH_WEIGHTS", raising=False)
    assert weights_folder() == tmp_path / "tread-bench" / "weights"
    monkeypatch.setenv("TREAD_BENCH_WEIGHTS", str(tmp_path / "mine"))
    assert weights_folder() == tmp_path / "mine"
    assert weights_folder(tmp_path / "given") == tmp_path / "given"


def test_weights_are_found_by_the_name_that_they_are_published_under(tmp_path):
    assert find_weights("dinov2", tmp_path) is None
    first, second = (tmp_path / one.file for one in DINOV2.published[:2])
    second.touch()
    first.mkdir()  # not a file
    assert find_weights("dinov2", tmp_path) == second


def test_settings_get_the_file_that_is_there_and_keep_the_one_that_is_given(tmp_path):
    (tmp_path / INCEPTION.published[0].file).touch()
    assert with_weights(INCEPTION.options(), tmp_path).weights == str(tmp_path / INCEPTION.published[0].file)
    given = INCEPTION.options(weights="mine.pth")
    assert with_weights(given, tmp_path) is given


def test_what_is_missing_is_named_with_its_file_and_its_publisher(tmp_path):
    with pytest.raises(UserError) as caught:
        with_weights(DINOV2.options(), tmp_path)
    text = str(caught.value)
    assert f"feature network dinov2: its weights are not in {tmp_path}" in text
    assert all(one.file in text and one.where in text for one in DINOV2.published)
    assert "{name: dinov2, weights: FILE}" in text
    with pytest.raises(UserError, match=r"trained-classifier needs a file of weights: give its file, \{name"):
        with_weights(extractors.find("trained-classifier").options(), tmp_path)


def test_a_hash_or_its_first_digits_are_compared():
    assert is_as_published(Published("a", "there", "6726825d"), "6726825d" + 56 * "0") is True
    assert is_as_published(Published("a", "there", "6726825d"), 64 * "0") is False
    assert is_as_published(Published("a", "there"), 64 * "0") is None
