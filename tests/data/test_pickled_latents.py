"""The lines of docs/methods/latents.md that convert pickled latents: what they write is read as its authors read it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from tests.data.latent_layouts import CLASSES, SHAPE, SIDE, Content, add_members, maskdit_batch
from tread_bench.data.check import data_problems
from tread_bench.data.latents.family import LatentsData
from tread_bench.data.latents.source import drawn_noise
from tread_bench.data.open import open_data

PAGE = Path(__file__).parents[2] / "docs" / "methods" / "latents.md"
CONTENT = Content.of(0, 11)
MOMENTS = CONTENT.moments()


def write_maskdit(folder: Path) -> None:
    """As MaskDiT's lmdb2wds.py: pickle.dumps of an array, and the class as WebDataset writes numbers."""
    for number, part in enumerate(np.array_split(np.arange(11), 2)):
        members = {}
        for i in part.tolist():
            members[f"{i:07d}.cls"] = str(CONTENT.labels[i]).encode()
            members[f"{i:07d}.latent"] = pickle.dumps(MOMENTS[i])
        add_members(folder / f"latent_imagenet_512_train-{number:04d}.tar", members)


def write_uvit(folder: Path) -> None:
    """As U-ViT's extract_imagenet_feature.py: numpy.save of an array and a class."""
    for i in range(11):
        pair = np.empty(2, dtype=object)
        pair[0], pair[1] = MOMENTS[i], CONTENT.labels[i]
        np.save(folder / f"{i}.npy", pair, allow_pickle=True)


@pytest.mark.parametrize(("function", "write"), [("maskdit_wds", write_maskdit), ("u_vit", write_uvit)])
def test_what_the_page_converts_is_read_as_its_authors_read_it(function, write, tmp_path, monkeypatch):
    (tmp_path / "DIR").mkdir()
    write(tmp_path / "DIR")
    monkeypatch.chdir(tmp_path)
    section = PAGE.read_text(encoding="utf-8").split("## Pickles")[1]
    lines = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    exec(lines.replace('convert(maskdit_wds("DIR")', f'convert({function}("DIR")'), {})

    entry = (str(tmp_path / "NEW"),)
    size = {"image_size": SIDE, "channels": SHAPE[0], "num_classes": CLASSES}
    choice = LatentsData(name="latents", train=entry, held_out=entry, quantity="mean_logvar", **size)
    assert data_problems([(choice, False)], reads_everything=True) == []
    train, index = open_data(choice).train, np.array([10, 0, 4])
    noise = drawn_noise(0, 7, 3, SHAPE)
    expected = maskdit_batch(CONTENT, index, noise, np.zeros(3, dtype=bool))
    np.testing.assert_allclose(train.drawn(index, 0, 7).numpy(), expected, rtol=2e-5, atol=2e-6)
    assert train.labels(index).tolist() == CONTENT.labels[index].tolist()
