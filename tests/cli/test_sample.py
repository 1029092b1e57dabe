from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tread_bench.core.stored.data_files import ChangedDataError, contents_of
from tread_bench.data.latents.family import LATENTS
from tread_bench.data.latents.options import LatentsData
from tread_bench.services.samples import refuse_other_files


def test_pictures_are_decoded_by_what_decoded_those_of_the_record(tmp_path):
    decoder = tmp_path / "decoder.pt2"
    decoder.write_bytes(b"one decoder")
    data = LatentsData(name="latents", train=["a"], held_out=["b"], decoder=str(decoder))
    record = SimpleNamespace(data_files=contents_of([str(decoder)]))
    job = SimpleNamespace(id="c", plan=SimpleNamespace(files={}), folder=SimpleNamespace(record=lambda cell: record))
    refuse_other_files(job, data)
    decoder.write_bytes(b"two decoder")
    with pytest.raises(ChangedDataError, match=r"decoder\.pt2 has changed since its run began"):
        refuse_other_files(job, data)


class CaptionedLatents(LatentsData):
    @property
    def text_shape(self):
        return 3, 5

    @property
    def family(self):
        return replace(LATENTS, files=lambda options, generates: [(("train", 0), options.train[0])])


def test_captions_are_those_of_the_data_that_the_run_began_with(tmp_path):
    path = tmp_path / "train.safetensors"
    path.write_bytes(b"some captions")
    data = CaptionedLatents(name="latents", train=[str(path)], held_out=["b"])
    files = contents_of([str(path)])
    job = SimpleNamespace(id="c", plan=SimpleNamespace(files=files), folder=SimpleNamespace(record=lambda cell: None))
    refuse_other_files(job, data)
    path.write_bytes(b"more captions")
    with pytest.raises(ChangedDataError, match=r"train\.safetensors has changed since its run began"):
        refuse_other_files(job, data)
