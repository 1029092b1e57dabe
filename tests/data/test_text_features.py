"""Features of captions: computed once, mapped into memory, and never trusted when they
are of others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tread_bench.core.describe.data_sources import text_encoders
from tread_bench.data.captions import features
from tread_bench.data.captions.family import Captions
from tread_bench.data.captions.features import CaptionFeatures
from tread_bench.data.text.words.encoder import Words

CAPTIONS = [f"caption number {number} of many" for number in range(40)]
EACH = 4  # captions in a shard
SHARD_BYTES = EACH * 24 * 64 * 4


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_SHARD_BYTES", SHARD_BYTES)


@pytest.fixture
def encodings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with every caption that is encoded."""
    done: list[str] = []
    encode = Words.encode
    monkeypatch.setattr(Words, "encode", lambda self, captions: done.extend(captions) or encode(self, captions))
    return done


def stored(captions: list[str] = CAPTIONS, **settings: object) -> CaptionFeatures:
    return CaptionFeatures(Captions.model_validate(settings), captions)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_caption_is_encoded_once_and_mapped_afterwards(encodings: list[str]) -> None:
    first = stored([*CAPTIONS, *CAPTIONS[:5]])
    asked = [CAPTIONS[39], "", CAPTIONS[0], CAPTIONS[39]]
    expected = Words(text_encoders.find("words").options()).encode(asked)
    encodings.clear()
    assert torch.equal(first.of(asked), expected)
    assert sorted(encodings) == sorted(["", *CAPTIONS])
    assert len(content(first.folder)) == 11  # 41 captions, 4 in a shard
    encodings.clear()
    again = stored()
    assert torch.equal(again.of(asked), expected) and torch.equal(first.of(asked), expected)
    assert encodings == []


def test_float16_is_what_float32_rounds_to() -> None:
    whole, half = stored(), stored(dtype="float16")
    assert half.folder != whole.folder
    assert torch.equal(half.of(CAPTIONS), whole.of(CAPTIONS).half().float())
    assert sum(map(len, content(half.folder).values())) < 0.6 * sum(map(len, content(whole.folder).values()))


def test_a_shard_that_is_lost_cut_or_of_others_is_encoded_again(encodings: list[str]) -> None:
    first, other = stored(), stored(CAPTIONS[::-1])
    another_setting = stored(encoder={"name": "words", "tokens": 25})
    assert len({first.folder, other.folder, stored(CAPTIONS[1:]).folder, another_setting.folder}) == 4
    expected, _ = first.of(CAPTIONS), other.of(CAPTIONS)
    before = content(first.folder)
    names = sorted(before)
    (first.folder / names[1]).unlink()
    (first.folder / names[3]).write_bytes(before[names[3]][:-5])
    (first.folder / names[5]).write_bytes((other.folder / names[5]).read_bytes())
    (first.folder / names[7]).write_bytes(before[names[8]])
    (first.folder / ".tread-bench-x.tmp").write_bytes(b"half")
    encodings.clear()
    assert torch.equal(stored().of(CAPTIONS), expected)
    assert len(encodings) == 4 * EACH
    assert content(first.folder) == before


def test_without_a_cache_that_can_be_written_features_are_the_same(tmp_path: Path, monkeypatch: Any) -> None:
    expected = stored().of(CAPTIONS)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert torch.equal(stored().of(CAPTIONS), expected)
