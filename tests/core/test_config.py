"""Limits of the settings of a cell."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tread_bench.core.config.sampling import Sampling
from tread_bench.core.config.suite import Tune
from tread_bench.core.describe.data_sources import find_data_source, find_text_encoder

GLYPHS, WORDS = find_data_source("glyphs").options, find_text_encoder("words").options
MOST = [(Sampling, "steps", 10_000), (Tune, "seeds", 100), (GLYPHS, "image_size", 256), (WORDS, "width", 65536)]


@pytest.mark.parametrize(("model", "key", "most"), MOST)
def test_a_number_has_the_maximum_of_its_own_setting(model: type[BaseModel], key: str, most: int) -> None:
    valid: Any = model(**{key: most})
    assert getattr(valid, key) == most
    for wrong in (most + 1, True):
        with pytest.raises(ValidationError, match=r"less than or equal to|must be a number, not true"):
            model(**{key: wrong})
