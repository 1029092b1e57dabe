"""Tensors in archives whose readers disagree: nothing is run, and no more is unpacked than a file has."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from contextlib import suppress

import pytest
import torch
from safetensors.torch import save

from tests.traps import Trap
from tread_bench.data.archives import load_tensors

Members = dict[str, bytes]
STATISTICS = {"mean": torch.zeros(1, 4, 1, 1), "std": torch.ones(1, 4, 1, 1)}


def saved(content: object, **options: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, **options)
    return buffer.getvalue()


def sound() -> Members:
    with zipfile.ZipFile(io.BytesIO(saved(STATISTICS))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(*parts: Members, method: int = zipfile.ZIP_STORED) -> bytes:
    """The members of all parts, one after the other."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file, warnings.catch_warnings(action="ignore"):  # of a name twice
        for members in parts:
            for name, content in members.items():
                file.writestr(name, content)
    return buffer.getvalue()


CRAFTED = {
    "a name twice": packed,
    "another archive behind": lambda clean, evil: packed(clean) + packed(evil),
}


@pytest.mark.parametrize("craft", CRAFTED)
def test_a_crafted_archive_runs_nothing(craft, tmp_path):
    marker, clean = tmp_path / "sprung", sound()
    hostile = {"pt": saved(Trap(marker)), "pkl": pickle.dumps(Trap(marker))}
    evil = {name: hostile.get(name.rpartition(".")[2], content) for name, content in clean.items()}
    assert evil != clean
    with suppress(ValueError):
        load_tensors(CRAFTED[craft](clean, evil))
    assert not marker.exists()


def test_an_archive_that_unpacks_to_more_than_the_file_has_is_refused():
    clean = sound()
    bomb = packed({**clean, next(iter(clean)): bytes(2**22)}, method=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"its members have 4,\d+,\d+ bytes, and may have "):
        load_tensors(bomb)


def test_a_sound_file_is_read_in_every_format():
    for content in (saved(STATISTICS), saved(STATISTICS, _use_new_zipfile_serialization=False)):
        assert torch.equal(load_tensors(content)["std"], STATISTICS["std"])
    with pytest.raises(ValueError, match="pickle protocol"):
        load_tensors(save(STATISTICS))
