"""Files of weights: tensors, or one line that says what is wrong, and the folder that they are found in."""

from __future__ import annotations

import io
import zipfile

import pytest
import torch
from safetensors.torch import save

from tread_bench.core.describe.metrics import Published, extractors
from tread_bench.core.errors import UserError
from tread_bench.measure.weights_file import tensors_of
from tread_bench.measure.weights_folder import find_weights, is_as_published, weights_folder, with_weights

TENSORS = {"a.weight": torch.arange(6.0).view(2, 3), "steps": torch.tensor(3)}


def saved(content, **options):
    buffer = io.BytesIO()
    torch.save(content, buffer, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content", [save(TENSORS), saved(TENSORS), saved(TENSORS, _use_new_zipfile_serialization=False)]
)
def test_tensors_are_read_from_safetensors_and_state_dicts(content):
    found = tensors_of(content)
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], TENSORS[name]) for name in TENSORS)


def compressed(content):
    """The same archive, deflated: a small file of large tensors."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            new.writestr(member, old.read(member))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x" * 100, "not a file of weights"),
        (save(TENSORS)[:-4], "not a file of weights"),
        (saved(TENSORS)[:200], "not a file of weights"),
        ((2**40).to_bytes(8, "little") + b"{}", "not a file of weights"),
        (saved({"a": 3}), "not a dictionary of tensors"),
        (compressed(saved({"a": torch.zeros(10**6)})), "its members have 4,000,219 bytes, and may have"),
        (
            saved({"a": torch.zeros(1).expand(2**40)}),
            r"tensor 'a' has shape \(1099511627776,\), more than the file stores",
        ),
        (saved({"a": torch.ones(2).to_sparse()}), "a tensor of it is sparse; save it dense"),
        (saved({"a": torch.tensor([1.0, float("nan")])}), "tensor 'a' contains NaN"),
        (saved({"a": print}), "not safe to load: it is damaged, or holds more than tensors"),
    ],
)
@pytest.mark.filterwarnings("ignore:Validating sparse tensor")
def test_anything_else_is_one_line(content, message):
    with pytest.raises(ValueError, match=message) as caught:
        tensors_of(content)
    assert "\n" not in str(caught.value)


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
