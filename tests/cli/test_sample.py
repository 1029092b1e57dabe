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


@pytest.mark.parametrize(("kind", "changed"), [(LatentsData, "decoder.pt2"), (CaptionedLatents, "train.safetensors")])
@pytest.mark.parametrize("known_from", ["plan", "record"])
def test_decoder_and_captions_are_those_of_the_images_of_the_cell(tmp_path, kind, changed, known_from):
    path = tmp_path / changed
    path.write_bytes(b"some content")
    of_files = {"decoder": str(path)} if changed == "decoder.pt2" else {"decoder": None}
    data = kind(name="latents", train=[str(path)], held_out=["b"], **of_files)
    known = contents_of([str(path)])
    record = SimpleNamespace(data_files=known) if known_from == "record" else None
    plan = SimpleNamespace(files=known if known_from == "plan" else {})
    job = SimpleNamespace(id="c", plan=plan, folder=SimpleNamespace(record=lambda cell: record))
    refuse_other_files(job, data)
    path.write_bytes(b"more content")
    with pytest.raises(ChangedDataError, match=f"{changed} has changed since its run began"):
        refuse_other_files(job, data)
