"""Images to latents: the autoencoder's own numbers, whatever interrupted it, and no file that is not its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from tests.data.test_parquet import png, write
from tests.data.tiny_vae import LATENT, SIDE, write_vae
from tread_bench.core.errors import UserError
from tread_bench.core.stored.outputs import OutputError
from tread_bench.data.check import data_problems
from tread_bench.data.digits.family import DigitsData
from tread_bench.data.encode.encode import EncodeRequest, encode
from tread_bench.data.encode.vae import Vae
from tread_bench.data.latents.options import LatentsData
from tread_bench.data.open import open_data
from tread_bench.data.parquet.family import ParquetData
from tread_bench.data.random_latents.family import RandomLatentsData
from tread_bench.data.source import to_uint8
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
    about = {"horizontal_flip": changes.pop("horizontal_flip", False)}
    data = ParquetData(
        train=(str(place / "train.parquet"),),
        held_out=(str(place / "held_out.parquet"),),
        image_size=SIDE,
        num_classes=3,
        **about,
    )
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


def expected(place: Path, kind: str, split: str, mirrored: bool) -> torch.Tensor:
    """By diffusers' own model, one image at a time."""
    diffusers = pytest.importorskip("diffusers")
    model = getattr(diffusers, kind).from_pretrained(place / kind, low_cpu_mem_usage=False)
    part = getattr(open_data(request_of(place, place).data), split)
    images = part.images(np.arange(len(part)))
    with torch.no_grad():
        found = [model.encode(image[None]) for image in (images.flip(-1) if mirrored else images)]
    return torch.cat([one.latent if kind == "AutoencoderDC" else one.latent_dist.parameters for one in found])


@pytest.mark.parametrize("kind", LATENT)
def test_what_is_stored_is_what_the_autoencoder_gives_and_is_read_by_the_manifest_alone(
    place: Path, tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "latents"
    encoded(request_of(place, out, kind, horizontal_flip=True))
    key = "moments" if kind == "AutoencoderKL" else "latents"
    for split, count in (("train", TRAIN), ("held_out", HELD_OUT)):
        tensors = stored(out, split)
        assert tensors["labels"].tolist() == [index % 3 for index in range(count)]
        for name, mirrored in ((key, False), (f"{key}_flip", True)):
            assert torch.allclose(tensors[name], expected(place, kind, split, mirrored), atol=1e-5)

    data = LatentsData(
        train=(str(out / "train"),), held_out=(str(out / "held_out"),), decoder=str(place / kind), decoded_size=SIDE
    )
    assert data_problems([(data, False)], reads_everything=True) == []
    assert (data.channels, data.image_size, data.num_classes, data.flips) == (LATENT[kind][0], 8, 3, "pair")
    source, vae = open_data(data), Vae(place / kind)
    assert (len(source.train), len(source.held_out)) == (TRAIN, HELD_OUT)
    assert source.train.labels(np.arange(TRAIN)).tolist() == [index % 3 for index in range(TRAIN)]

    # A network learns scale * (mean + std * noise); the middle of many draws is that of the mean.
    found = stored(out)
    mean = found["latents"] if kind == "AutoencoderDC" else found["moments"].chunk(2, dim=1)[0]
    learnt = source.train.images(np.arange(TRAIN))
    spread = 0 if kind == "AutoencoderDC" else float((learnt / vae.scale - mean).std())
    assert spread == pytest.approx(0 if kind == "AutoencoderDC" else 1, abs=0.1)  # random weights: log variance near 0

    # And the decoder takes what a network generates.
    pictures = to_pixels(learnt[:2], open_decoder(data))
    with torch.no_grad():
        assert torch.equal(pictures, to_uint8(vae.decode(learnt[:2] / vae.scale)))


def test_class_folders_are_the_real_images_of_their_latents(place: Path, whole: Path, tmp_path: Path) -> None:
    """FID is measured against the folders that were encoded, without another copy of the images."""
    pixels = np.random.default_rng(3).integers(0, 256, (5, SIDE, SIDE + 4, 3), dtype=np.uint8)
    for number, image in enumerate(pixels):
        (tmp_path / "photos" / "abc"[number % 3]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "photos" / "abc"[number % 3] / f"{number}.png")
    (tmp_path / "empty").mkdir()

    def latents(*images: str) -> LatentsData:
        splits = {"train": (str(whole / "train"),), "held_out": (str(whole / "held_out"),)}
        return LatentsData(**splits, decoder=str(place / "AutoencoderKL"), images=images, decoded_size=SIDE)

    folder, table = str(tmp_path / "photos"), str(place / "train.parquet")
    data = latents(folder)
    assert data_problems([(data, True)]) == []
    assert [path for (key, *_), path in data.family.files(data, True) if key == "images"] == [f"{folder}/"]
    real = open_data(data).reference
    expected = [pixels[number, :, 2:-2].transpose(2, 0, 1) for number in (0, 3, 1, 4, 2)]  # class by class, cropped
    assert np.array_equal(torch.cat(list(real.batches(2))), np.stack(expected))

    # Parquet files as before; no mixture, and no folder without images.
    assert len(open_data(latents(table)).reference) == TRAIN
    for images, told in (((folder, table), "name files of one kind"), ((str(tmp_path / "empty"),), "no image files")):
        (found,) = data_problems([(latents(*images), True)])
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


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "float16"},
        {"shard_samples": 16},
        {"horizontal_flip": True},
        {"kind": "AutoencoderDC"},
        {"other": True},
    ],
)
def test_a_folder_of_another_encoding_is_refused(
    place: Path, tmp_path: Path, finished: Path, change: dict[str, Any]
) -> None:
    if change.pop("other", False):  # images
        place = Path(shutil.copytree(place, tmp_path / "other"))
        write_images(place / "train.parquet", TRAIN, seed=2)
    before = files_of(finished)
    with pytest.raises(OutputError, match=r"latents-00000.*belongs to another encoding .*: give another --out"):
        encoded(request_of(place, finished, **change))
    assert files_of(finished) == before


def test_a_shard_that_is_not_its_own_is_refused_and_left(place: Path, finished: Path) -> None:
    first, path = (finished / "train" / f"latents-0000{number}.safetensors" for number in (0, 1))
    for content in (first.read_bytes(), path.read_bytes()[:-100], b"mine"):
        path.write_bytes(content)
        before = files_of(finished)
        with pytest.raises(OutputError, match=r"latents-00001\.safetensors is damaged, or belongs to another encoding"):
            encoded(request_of(place, finished))
        assert files_of(finished) == before


def test_a_manifest_that_was_edited_is_refused_and_left(place: Path, finished: Path) -> None:
    path = finished / "train" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "scale": 1.0}))
    before = files_of(finished)
    with pytest.raises(OutputError, match=r"manifest\.json is not what encode wrote; move it away"):
        encoded(request_of(place, finished))
    assert files_of(finished) == before


def test_two_processes_do_not_write_to_one_folder(place: Path, finished: Path) -> None:
    import fcntl

    with open(finished / ".encode.lock", "a+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match="another process is encoding into it"):
            encoded(request_of(place, finished))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"data": DigitsData()}, "encodes images of 3 channels, and these have 1"),
        ({"data": RandomLatentsData()}, "data random_latents holds latents; encode takes a data source of images"),
    ],
)
def test_what_cannot_be_encoded_is_refused_and_leaves_no_folder(
    place: Path, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    with pytest.raises(UserError, match=told):
        encoded(request_of(place, tmp_path / "latents", **change))
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
    shutil.copytree(place / "AutoencoderKL", tmp_path / "vae")
    path = tmp_path / "vae" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=told) as raised:
        encoded(request_of(place, tmp_path / "latents", vae=tmp_path / "vae"))
    assert str(raised.value).startswith(str(path))
    assert not (tmp_path / "latents").exists()


def test_a_latent_that_the_type_does_not_hold_is_refused(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "large")
    path = tmp_path / "large" / "AutoencoderKL" / "diffusion_pytorch_model.safetensors"
    weights = load_file(path)
    weights["quant_conv.bias"] += 1e5
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(
        UserError, match="train, image 0 and the following 7: a latent contains NaN, or values that float16 does not"
    ):
        encoded(request_of(tmp_path / "large", tmp_path / "latents", dtype="float16"))
    assert not list((tmp_path / "latents").rglob("*.safetensors"))
