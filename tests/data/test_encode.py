"""Images to latents: the autoencoder's own numbers, whatever interrupted it, and no file that is not its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.data.image_sets import cropped, write_folder
from tests.data.test_parquet import png, write
from tests.data.tiny_vae import LATENT, SIDE, write_vae
from tread_bench.core.errors import UserError
from tread_bench.core.stored.files import OutputError
from tread_bench.data.check import data_problems
from tread_bench.data.digits.family import DigitsData
from tread_bench.data.encode.encode import EncodeRequest, encode
from tread_bench.data.encode.vae import Vae
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.random_latents.family import RandomLatentsData
from tread_bench.data.source import open_data, to_uint8
from tread_bench.measure.quality.decoder import open_decoder, to_pixels

TRAIN, HELD_OUT, SHARD = 21, 5, 8  # three shards, the last one not full


def write_images(path: Path, count: int, seed: int, damaged: tuple[int, ...] = ()) -> str:
    pixels = np.random.default_rng(seed).integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
    images = [png(image) for image in pixels]
    for index in damaged:
        images[index]["bytes"] = b"no image"
    return write(path, images, [index % 3 for index in range(count)])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images and both kinds of autoencoder."""
    folder = tmp_path_factory.mktemp("images")
    write_images(folder / "train.parquet", TRAIN, seed=0)
    write_images(folder / "held_out.parquet", HELD_OUT, seed=1)
    for kind in LATENT:
        write_vae(folder / kind, kind)
    return folder


def request_of(place: Path, out: Path, kind: str = "AutoencoderKL", **changes: Any) -> EncodeRequest:
    files = {split: [str(place / f"{split}.parquet")] for split in ("train", "held_out")}
    flip = changes.pop("horizontal_flip", False)
    data = ParquetData(**files, image_size=SIDE, num_classes=3, horizontal_flip=flip)
    return EncodeRequest(**{"data": data, "vae": place / kind, "out": out, "shard_samples": SHARD, **changes})


def encoded(request: EncodeRequest) -> None:
    encode(request, lambda *_: None)


def stored(out: Path, split: str = "train") -> dict[str, torch.Tensor]:
    """All tensors of a split, its shards joined in their order."""
    shards = [load_file(path) for path in sorted((out / split).glob("*.safetensors"))]
    return {name: torch.cat([shard[name] for shard in shards]) for name in shards[0]}


def files_of(out: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of every file but the lock."""
    files = (path for path in sorted(out.rglob("*")) if path.is_file() and path.name != ".encode.lock")
    return {str(path.relative_to(out)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def contents(out: Path) -> dict[str, bytes]:
    return {name: content for name, (content, _) in files_of(out).items()}


@pytest.fixture(scope="module")
def whole(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished folder of moments."""
    out = tmp_path_factory.mktemp("whole") / "latents"
    encoded(request_of(place, out))
    return out


@pytest.fixture
def finished(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "latents"))


@pytest.mark.parametrize("kind", LATENT)
def test_what_is_stored_is_what_the_autoencoder_gives_and_is_read_by_the_manifest_alone(
    place: Path, tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "latents"
    encoded(request_of(place, out, kind, horizontal_flip=True))
    key = "moments" if kind == "AutoencoderKL" else "latents"
    vae, given = Vae(place / kind), open_data(request_of(place, out).data)
    for split, count in (("train", TRAIN), ("held_out", HELD_OUT)):
        tensors = stored(out, split)
        assert tensors["labels"].tolist() == [index % 3 for index in range(count)]
        images = getattr(given, split).images(np.arange(count))
        for name, pixels in ((key, images), (f"{key}_flip", images.flip(-1))):
            assert torch.allclose(tensors[name], vae.encode(pixels), atol=1e-5)

    data = latents(out, decoder=str(place / kind), decoded_size=SIDE)
    assert data_problems([(data, False)], reads_everything=True) == []
    assert (data.channels, data.image_size, data.num_classes, data.flips) == (LATENT[kind][0], 8, 3, "pair")
    assert (data.quantity == "sample") == (key == "latents")
    source = open_data(data)
    assert (len(source.train), len(source.held_out), data.scale) == (TRAIN, HELD_OUT, vae.scale)

    # And the decoder takes what a network generates.
    learnt = source.train.images(np.arange(2))
    assert torch.equal(to_pixels(learnt, open_decoder(data)), to_uint8(vae.decode(learnt / vae.scale)))


def latents(out: Path, **more: Any) -> LatentsData:
    """What a suite says of encoded latents."""
    return LatentsData(train=(str(out / "train"),), held_out=(str(out / "held_out"),), **more)


def test_class_folders_are_the_real_images_of_their_latents(place: Path, whole: Path, tmp_path: Path) -> None:
    """FID is measured against the folders that were encoded, without another copy of the images."""
    folder, empty, table = str(tmp_path / "photos"), str(tmp_path / "empty"), str(place / "train.parquet")
    write_folder(Path(folder), 5)
    Path(empty).mkdir()
    data = latents(whole, images=(folder,), decoded_size=4)
    assert data_problems([(data, True)]) == []
    assert [path for (key, *_), path in data.family.files(data, True) if key == "images"] == [f"{folder}/"]
    real = torch.cat(list(open_data(data).reference.batches(2)))
    assert np.array_equal(real, cropped(5, 0)[[0, 3, 1, 4, 2]])  # class by class

    # Parquet files as before; no mixture, and no folder without images.
    assert len(open_data(latents(whole, images=(table,))).reference) == TRAIN
    for images, told in (((folder, table), "name files of one kind"), ((empty,), "no image files")):
        (found,) = data_problems([(latents(whole, images=images, decoded_size=SIDE), True)])
        assert told in found


# Interrupted, and resumed


class Interrupted(BaseException):
    """As Ctrl-C comes: at some moment."""


def test_an_interrupted_encoding_resumes_to_the_same_files(place: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "latents"

    def interrupt(split: str, done: int, of: int) -> None:
        if done > SHARD:  # in the second shard
            raise Interrupted

    with pytest.raises(Interrupted):
        encode(request_of(place, out), interrupt)
    before = files_of(out)
    assert [name for name in before if name.endswith("safetensors")] == ["train/latents-00000.safetensors"]
    assert "train/manifest.json" not in before

    reports: list[tuple[str, int, int]] = []
    encode(request_of(place, out), lambda *report: reports.append(report))
    assert reports[0] == ("train", SHARD, TRAIN)
    assert reports[-1] == ("held_out", HELD_OUT, HELD_OUT)
    assert files_of(out)["train/latents-00000.safetensors"] == before["train/latents-00000.safetensors"]
    assert contents(out) == contents(whole)

    # What is finished is left as it is.
    before = files_of(out)
    encoded(request_of(place, out))
    assert files_of(out) == before


def test_a_shard_that_is_gone_is_encoded_again_and_what_a_killed_writer_left_is_removed(
    place: Path, whole: Path, finished: Path
) -> None:
    (finished / "train" / "latents-00001.safetensors").unlink()
    (finished / "train" / "manifest.json").write_text("{}")  # of the shards that were there
    (finished / "train" / ".tread-bench-abc.tmp").write_bytes(b"half a shard")
    encoded(request_of(place, finished))
    assert contents(finished) == contents(whole)


# Refused: nothing of the user's is replaced, and no folder holds two encodings


OTHERS = ({"dtype": "float16"}, {"shard_samples": 16}, {"horizontal_flip": True}, {"kind": "AutoencoderDC"}, {})


def refused_and_left(place: Path, out: Path, told: str, **changes: Any) -> None:
    before = files_of(out)
    with pytest.raises(OutputError, match=told):
        encoded(request_of(place, out, **changes))
    assert files_of(out) == before


@pytest.mark.parametrize("change", OTHERS)
def test_a_folder_of_another_encoding_is_refused(place: Path, tmp_path: Path, finished: Path, change: Any) -> None:
    if not change:  # other images
        place = Path(shutil.copytree(place, tmp_path / "other"))
        write_images(place / "train.parquet", TRAIN, seed=2)
    refused_and_left(place, finished, r"latents-00000.*belongs to another encoding .*: give another --out", **change)


def test_a_shard_that_is_not_its_own_is_refused_and_left(place: Path, finished: Path) -> None:
    first, path = (finished / "train" / f"latents-0000{number}.safetensors" for number in (0, 1))
    for content in (first.read_bytes(), path.read_bytes()[:-100], b"mine"):
        path.write_bytes(content)
        refused_and_left(place, finished, r"latents-00001\.safetensors is damaged, or belongs to another encoding")


def changed(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_manifest_that_was_edited_is_refused_and_left(place: Path, finished: Path) -> None:
    changed(finished / "train" / "manifest.json", scale=1.0)
    refused_and_left(place, finished, r"manifest\.json is not what encode wrote; move it away")


def test_two_processes_do_not_write_to_one_folder(place: Path, finished: Path) -> None:
    import fcntl

    with open(finished / ".encode.lock", "a+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match="another process is encoding into it"):
            encoded(request_of(place, finished))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (DigitsData(), "encodes images of 3 channels, and these have 1"),
        (RandomLatentsData(), "data random_latents holds latents; encode takes a data source of images"),
    ],
)
def test_what_cannot_be_encoded_is_refused_and_leaves_no_folder(place: Path, tmp_path: Path, data: Any, told: str):
    with pytest.raises(UserError, match=told):
        encoded(request_of(place, tmp_path / "latents", data=data))
    assert not (tmp_path / "latents").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"scaling_factor": 0}, r"\(scale: 0.0: must be positive and finite\); correct it"),
        ({"scaling_factor": None}, r"a real number, not 'NoneType'\); correct it"),
        ({"latents_std": [1, 0, 1, 1]}, r"division by zero\); correct it"),
        ({"latents_std": [1, 1, 1]}, "scale has 3 numbers for 4 channels"),
    ],
)
def test_a_configuration_without_a_usable_scale_is_refused_before_any_work(
    place: Path, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    write_vae(tmp_path / "vae")
    changed(tmp_path / "vae" / "config.json", **change)
    with pytest.raises(UserError, match=rf"^{tmp_path}/vae/config\.json: .*{told}"):
        encoded(request_of(place, tmp_path / "latents", vae=tmp_path / "vae"))
    assert not (tmp_path / "latents").exists()


def test_a_latent_that_the_type_does_not_hold_is_refused(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "large")
    path = tmp_path / "large" / "AutoencoderKL" / "diffusion_pytorch_model.safetensors"
    weights = load_file(path)
    weights["quant_conv.bias"] += 1e5
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(UserError, match="train, image 0 and the following 7: a latent contains NaN, or values that"):
        encoded(request_of(tmp_path / "large", tmp_path / "latents", dtype="float16"))
    assert not list((tmp_path / "latents").rglob("*.safetensors"))
