"""A stand-in of every layout is read by that layout's own reader, and a network sees standard normal values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tread_bench.core.errors import UserError
from tread_bench.data.check import data_problems
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.latents.layouts import LAYOUTS
from tread_bench.data.latents.lmdb_store import LmdbStore
from tread_bench.data.latents.stand_in import stand_in
from tread_bench.data.open import open_data

MISSING: dict[str, Any] = {"train": ["no/train"], "held_out": ["no/held_out"], "image_size": 4, "num_classes": 3}


@pytest.mark.parametrize("layout", [name for name, layout in LAYOUTS.items() if not layout.usual.get("captions")])
def test_it_stands_in_for_files_that_are_missing(layout: str, tmp_path: Path) -> None:
    if layout == "maskdit-lmdb":
        pytest.importorskip("lmdb", reason="lmdb is not installed (extra lmdb)")
    scale = {} if "scale" in LAYOUTS[layout].usual else {"scale": 0.5}
    images = {"train_images": "no/images", "decoded_size": 8} if LAYOUTS[layout].is_named else {}
    options = LatentsData(name="latents", layout=layout, **MISSING, **scale, **images)
    assert options.family.counts(options) is None
    there = stand_in(options, tmp_path / "stand-in", 40)
    assert data_problems([(there, False)]) == []
    assert options.family.counts(there) == (40, 16)
    data = open_data(there)
    values = data.train.drawn(np.arange(40), 0, 0)
    assert 0.9 < values.std() < 1.1 and abs(values.mean()) < 0.1
    assert sorted(set(data.train.labels(np.arange(40)).tolist())) == [0, 1, 2]
    if images:
        assert data.train.pictures(np.array([3]), 0, 0).shape == (1, 3, 8, 8)


def test_without_lmdb_a_stand_in_and_a_database_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    told = r"layout maskdit-lmdb needs the package lmdb: pip install 'tread-bench\[lmdb\]'"
    options = LatentsData(name="latents", layout="maskdit-lmdb", **MISSING)
    with pytest.raises(UserError, match=told):
        stand_in(options, tmp_path, 40)
    (tmp_path / "data.mdb").touch()
    with pytest.raises(UserError, match=told):
        LmdbStore(options, [str(tmp_path / "data.mdb")])


@pytest.mark.slow
def test_decoder_and_images_stand_in_too(tmp_path: Path) -> None:
    from tread_bench.measure.quality.decoder import open_decoder

    options = LatentsData(
        name="latents", **MISSING, decoder="no/decoder.pt2", images=("no/images.parquet",), decoded_size=16
    )
    there = stand_in(options, tmp_path, 20)
    assert data_problems([(there, True)]) == []
    decoder = open_decoder(there)
    assert decoder is not None
    images = decoder(open_data(there).train.images(np.arange(5)))
    assert images.shape == (5, 3, 16, 16) and images.abs().max() <= 1
    assert len(open_data(there).reference) == 20
