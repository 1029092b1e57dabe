"""What a network learns of latents, per number, per channel and per position, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tread_bench.core.errors import UserError
from tread_bench.data.scaling import Scaling

SHAPE = (3, 2, 2)
RANDOM = np.random.default_rng(0)
LATENTS = torch.from_numpy(RANDOM.normal(size=(5, *SHAPE)).astype(np.float32))


def saved(path: Path, array: Any) -> str:
    np.save(path, array)
    return str(path)


FACTORS = {
    "number": 0.3611,
    "channels": (0.5, 2.0, 3.0),
    "array of channels": RANDOM.uniform(1, 2, (3, 1, 1)),
    "positions": RANDOM.uniform(1, 2, SHAPE),
}


@pytest.mark.parametrize("value", FACTORS.values(), ids=FACTORS)
def test_what_is_learnt_is_scale_times_latent_less_shift(tmp_path: Path, value: Any) -> None:
    given = saved(tmp_path / "value.npy", value) if isinstance(value, np.ndarray) else value
    factor = np.reshape(value, (3, 1, 1)) if isinstance(value, tuple) else value
    for shift, subtracted in ((None, 0.0), (given, factor)):
        scaling = Scaling(given, shift, SHAPE)
        expected = (LATENTS.double().numpy() - subtracted) * factor
        assert np.allclose(scaling.scaled(LATENTS), expected, rtol=1e-5, atol=1e-6)
        assert torch.allclose(scaling.unscaled(scaling.scaled(LATENTS)), LATENTS, rtol=1e-5, atol=1e-6)


def test_one_number_is_divided_by_as_it_is() -> None:
    """On a GPU, a division by a tensor rounds otherwise than one by a number."""
    assert Scaling(0.18215, None, SHAPE).scale == 0.18215
    assert torch.equal(Scaling(0.18215, None, SHAPE).unscaled(LATENTS), LATENTS / 0.18215)


@pytest.mark.parametrize(
    ("scale", "told"),
    [
        ((1.0, 2.0), "scale: 2 numbers for latents of 3 channels"),
        ((1.0, 2.0, 0.0), "contains 0"),
        (np.zeros((3, 1, 1)), "contains 0"),
        (np.ones((2, 1, 1)), r"an array of shape \(2, 1, 1\); save \(3, 1, 1\) or \(3, 2, 2\)"),
        (np.full((3, 1, 1), np.nan), "contains NaN"),
        (np.array([{}], dtype=object), r"scale\.npy: scale holds Python objects"),
        (np.array(["a"]), r"scale is str\d+; store float32 or float64"),
        (b"\x93NUMPY", r"scale\.npy: scale: not a readable NumPy header .*write it with numpy\.save"),
        (None, r"scale\.npy cannot be read \(No such file"),
    ],
)
def test_what_does_not_fit_the_latents_is_refused(tmp_path: Path, scale: Any, told: str) -> None:
    path = tmp_path / "scale.npy"
    if isinstance(scale, np.ndarray):
        np.save(path, scale, allow_pickle=True)
    elif isinstance(scale, bytes):
        path.write_bytes(scale)
    with pytest.raises(UserError, match=told):
        Scaling(scale if isinstance(scale, tuple) else str(path), None, SHAPE)
