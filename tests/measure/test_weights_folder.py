"""The folder of weights: where it is, what is found in it, and what is said where something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tread_bench.core.describe.metrics import Published, find_extractor
from tread_bench.core.errors import UserError
from tread_bench.measure.weights_folder import (
    find_weights,
    is_as_published,
    weights_folder,
    with_weights,
)

INCEPTION, DINOV2 = find_extractor("inception"), find_extractor("dinov2")


def test_the_option_comes_before_the_variable_before_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TREAD_BENCH_WEIGHTS", raising=False)
    assert weights_folder() == tmp_path / "tread-bench" / "weights"
    monkeypatch.setenv("TREAD_BENCH_WEIGHTS", str(tmp_path / "mine"))
    assert weights_folder() == tmp_path / "mine"
    assert weights_folder(tmp_path / "given") == tmp_path / "given"


def test_weights_are_found_by_the_name_that_they_are_published_under(tmp_path: Path) -> None:
    assert find_weights("inception", tmp_path) is None
    (tmp_path / INCEPTION.published[0].file).touch()
    assert find_weights("inception", tmp_path) == tmp_path / INCEPTION.published[0].file
    assert find_weights("dinov2", tmp_path) is None
    (tmp_path / DINOV2.published[1].file).touch()
    assert find_weights("dinov2", tmp_path) == tmp_path / DINOV2.published[1].file
    (tmp_path / DINOV2.published[0].file).mkdir()  # not a file
    assert find_weights("dinov2", tmp_path) == tmp_path / DINOV2.published[1].file


def test_settings_get_the_file_that_is_there_and_keep_the_one_that_is_given(tmp_path: Path) -> None:
    (tmp_path / INCEPTION.published[0].file).touch()
    assert with_weights(INCEPTION.options(), tmp_path).weights == str(tmp_path / INCEPTION.published[0].file)
    given = INCEPTION.options(weights="mine.pth")
    assert with_weights(given, tmp_path) is given


@pytest.mark.parametrize("family", [INCEPTION, DINOV2], ids=lambda family: family.name)
def test_what_is_missing_is_named_with_its_file_and_its_publisher(family: object, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        with_weights(family.options(), tmp_path)
    text = str(caught.value)
    assert f"feature network {family.name}: its weights are not in {tmp_path}" in text
    for one in family.published:
        assert one.file in text and one.where in text
    assert f"{{name: {family.name}, weights: FILE}}" in text


def test_a_network_whose_weights_nobody_publishes_needs_a_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"trained-classifier needs a file of weights: give its file, \{name"):
        with_weights(find_extractor("trained-classifier").options(), tmp_path)


def test_a_hash_or_its_first_digits_are_compared() -> None:
    assert is_as_published(Published("a", "there", "6726825d"), "6726825d" + 56 * "0") is True
    assert is_as_published(Published("a", "there", "6726825d"), 64 * "0") is False
    assert is_as_published(Published("a", "there"), 64 * "0") is None
