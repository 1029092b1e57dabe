"""Files of weights: tensors, or one line that says what is wrong; nothing in them is run, nothing fills the memory."""

from __future__ import annotations

import io
import pickle
import zipfile

import pytest
import torch
from safetensors.torch import save

from tests.traps import Trap
from tread_bench.measure.weights_file import tensors_of

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


def endless():
    """4 TB by its shape, one number by what is stored."""
    return torch.zeros(1).expand(2**40)


NAN = {"a": torch.tensor([1.0, float("nan")])}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x" * 100, "not a file of weights"),
        (save(TENSORS)[:-4], "not a file of weights"),
        (saved(TENSORS)[:200], "not a file of weights"),
        ((2**40).to_bytes(8, "little") + b"{}", "not a file of weights"),
        (saved({"a": 3}), "not a dictionary of tensors"),
        (compressed(saved({"a": torch.zeros(10**6)})), "its members have 4,000,219 bytes, and may have"),
        (saved({"a": endless()}), r"tensor 'a' has shape \(1099511627776,\), more than the file stores"),
        (saved({"a": torch.ones(2).to_sparse()}), "a tensor of it is sparse; save it dense"),
        (saved(NAN), "tensor 'a' contains NaN"),
    ],
)
@pytest.mark.filterwarnings("ignore:Validating sparse tensor")
def test_anything_else_is_one_line(content, message):
    with pytest.raises(ValueError, match=message) as caught:
        tensors_of(content)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("write", [saved, pickle.dumps])
def test_no_code_is_run(write, tmp_path):
    content = write({"a": Trap(tmp_path / "trace")})
    with pytest.raises(ValueError, match="not safe to load"):
        tensors_of(content)
    assert not (tmp_path / "trace").exists()
