"""What `sample` decodes with, and whose captions it takes, are those of the run."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tread_bench.core.stored.data_files import ChangedDataError, contents_of
from tread_bench.data.latents.family import LATENTS
from tread_bench.data.latents.options import LatentsData
from tread_bench.services.samples import refuse_other_files


class CaptionedLatents(LatentsData):
    @property
    def text_shape(self):
        return 3, 5

    @property
    def family(self):
        return replace(LATENTS, files=lambda options, generates: [(("train", 0), options.train[0])])


@pytest.mark.parametrize(("kind", "key"), [(LatentsData, "decoder"), (CaptionedLatents, "train")])
@pytest.mark.parametrize("known_from", ["plan", "record"])
def test_decoder_and_captions_are_those_of_the_images_of_the_cell(tmp_path, kind, key, known_from):
    path = tmp_path / f"{key}.pt2"
    path.write_bytes(b"some content")
    of_key = {"decoder": str(path), "train": [str(path)]}[key]
    data = kind.model_validate({"name": "latents", "train": ["a"], "held_out": ["b"], key: of_key})
    files = {"plan": {}, "record": {}, known_from: contents_of([str(path)])}
    folder = SimpleNamespace(record=lambda cell: SimpleNamespace(data_files=files["record"]))
    job = SimpleNamespace(id="c", plan=SimpleNamespace(files=files["plan"]), folder=folder)
    refuse_other_files(job, data)
    path.write_bytes(b"more content")
    with pytest.raises(ChangedDataError, match=f"{key}.pt2 has changed since its run began"):
        refuse_other_files(job, data)
