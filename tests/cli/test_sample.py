from __future__ import annotations

from types import SimpleNamespace

import pytest

from tread_bench.core.stored.data_files import ChangedDataError, DataFiles
from tread_bench.data.latents.family import LatentsData
from tread_bench.services.sample import _refuse_another_decoder


def test_pictures_are_decoded_by_what_decoded_those_of_the_record(tmp_path):
    decoder = tmp_path / "decoder.pt2"
    decoder.write_bytes(b"one decoder")
    data = LatentsData(name="latents", train=["a"], held_out=["b"], decoder=str(decoder))
    record = SimpleNamespace(data_files=DataFiles([str(decoder)], {}).hashed())
    job = SimpleNamespace(id="c", plan=SimpleNamespace(files={}), folder=SimpleNamespace(record=lambda cell: record))
    _refuse_another_decoder(job, data)
    decoder.write_bytes(b"two decoder")
    with pytest.raises(ChangedDataError, match=r"decoder\.pt2 has changed since its run began"):
        _refuse_another_decoder(job, data)
