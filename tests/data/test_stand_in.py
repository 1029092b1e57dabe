"""Random samples that stand in for missing files: their captions and images, and the decoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.data.checked import failing_of_data
from tread_bench.data.open import open_data
from tread_bench.data.stand_in.family import STAND_IN, StandInData
from tread_bench.data.stand_in.source import write_decoder
from tread_bench.measure.quality.decoder import open_decoder

SETTINGS = {
    "images": {"image_size": 8, "num_classes": 3},
    "captioned": {"image_size": 8, "num_classes": 0, "text": [6, 10]},
    "latents": {"image_size": 4, "channels": 4, "num_classes": 3, "picture_size": 16},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_they_keep_the_contract_of_data_sources(name: str, tmp_path: Path) -> None:
    assert failing_of_data(STAND_IN, tmp_path, SETTINGS[name]) == set()


def test_captions_have_no_words_and_latents_have_images_of_their_own() -> None:
    captioned = open_data(StandInData.model_validate(SETTINGS["captioned"])).train
    found = captioned.captions(np.arange(20), 0, 0)
    assert found == [""] * 20
    latents = open_data(StandInData.model_validate(SETTINGS["latents"]))
    assert latents.train.pictures(np.arange(3), 0, 0).shape == (3, 3, 16, 16)


def test_a_decoder_of_random_weights_makes_images_of_the_latents(tmp_path: Path) -> None:
    path = tmp_path / "decoder.pt2"
    write_decoder(path, 4, 4, 16)
    choice = StandInData.model_validate({**SETTINGS["latents"], "decoder": str(path)})
    images = open_decoder(choice)(open_data(choice).train.images(np.arange(5)))
    assert images.shape == (5, 3, 16, 16) and images.abs().max() <= 1
