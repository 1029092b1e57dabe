"""Images to latents, captions to features: shards that a later start resumes, and a manifest of what they are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tread_bench.core.describe.data_sources import VAE_FILES, DataOptions
from tread_bench.core.errors import UserError
from tread_bench.core.names import canonical_json
from tread_bench.core.problems import validation_problems
from tread_bench.core.progress import ReportProgress
from tread_bench.core.stored.cache import try_lock
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.destinations import claim_folders
from tread_bench.core.stored.files import (
    OutputError,
    open_plain,
    read_json,
    refuse_irregular,
    refuse_linked,
    replacing,
    temporaries,
    write_document,
)
from tread_bench.data.captions.features import DTYPES, EMPTY, CaptionedImages, cut_off, encoded, report_cut_off
from tread_bench.data.encode.vae import CHUNK, Vae
from tread_bench.data.latents.manifest import MANIFEST, LatentManifest, StoredCaptions
from tread_bench.data.latents.safetensors_store import CAPTION_BYTES, CAPTIONS, COUNTS, EMPTY_TEXT, TEXT
from tread_bench.data.source import DataSplit, open_data
from tread_bench.data.text.encoder import TextEncoder, encoder_sha256, open_text_encoder

GENERATOR = "tread-bench encode"
SPLITS = ("train", "held_out")
_WORKERS = 8  # threads that read images
_AHEAD = 32  # chunks of images that are in memory at most


@dataclass(frozen=True, slots=True)
class EncodeRequest:
    """What to encode, how, and where to.

    Args:
        shard_samples: samples in a file.
    """

    data: DataOptions
    vae: Path
    out: Path
    dtype: Literal["float32", "float16"] = "float32"
    device: str = "cpu"
    shard_samples: int = 4096  # moments of 4 x 32 x 32 in float32 are 128 MiB


def encode(request: EncodeRequest, report: ReportProgress) -> None:
    """Write `out`/train and `out`/held_out: shards of latents and manifest.json. Shards that are there are kept.

    Raises:
        UserError: the data are not images that the autoencoder takes.
        OutputError: `out` holds something else, or another process writes to it.
    """
    # What is encoded, and by what.
    data = request.data
    if data.family.decoding(data) is not None or data.family.not_comparable(data):
        raise UserError(f"data {data.name} holds latents; encode takes a data source of images")
    vae = Vae(request.vae).to(request.device)
    source = open_data(data)
    splits: dict[str, DataSplit] = {"train": source.train, "held_out": source.held_out}
    settings = source.train.settings if isinstance(source.train, CaptionedImages) else None
    if data.text_shape is not None and settings is None:
        raise UserError(f"data {data.name} encodes its captions itself, and does not give them to others")
    encoder = open_text_encoder(settings.encoder).to(request.device) if settings else None
    latent = _latent_shape(data, vae)
    manifests = {name: _manifest(data, vae, latent, len(split)) for name, split in splits.items()}

    # All that the latents depend on; data without the files, whose contents have a hash.
    files = {str(place[0]) for place, _ in data.family.files(data, True) if place}
    job = {
        "data": data.model_dump(mode="json", exclude={*files, "captions"}),
        **{name: {"count": len(split), "sha256": split.sha256} for name, split in splits.items()},
        **manifests["train"].model_dump(mode="json", include={"encoder", "flips", "text_encoder"}),
        "dtype": request.dtype,
        "text_dtype": settings.dtype if settings else "",
        "shard_samples": request.shard_samples,
    }

    # Both splits, shard by shard, into a folder that nobody else writes to.
    out = request.out
    refuse_linked(out / name for name in SPLITS)
    claim_folders(GENERATOR, {"--out": out})
    with open_plain(out / ".encode.lock", "a+") as lock:
        try:
            try_lock(lock)
        except BlockingIOError:
            raise OutputError(f"--out {out}: another process is encoding into it; wait for it to end") from None
        for left in temporaries(out):
            left.unlink(missing_ok=True)
        for name, split in splits.items():
            (out / name).mkdir(exist_ok=True)
            _encode_split(request, vae, encoder, job, name, split, manifests[name], report)


def _latent_shape(data: DataOptions, vae: Vae) -> tuple[int, int, int]:
    """(C, H, W). Raises UserError where the autoencoder does not take the images."""
    image = (data.channels, data.image_size, data.image_size)
    if (takes := vae.config["in_channels"]) != data.channels:
        raise UserError(
            f"{vae.folder} encodes images of {takes} channels, and these have {data.channels}; name another autoencoder"
        )
    found = vae.encoded_shape(image)
    latent = (found[0] // (1 + vae.has_posterior), found[1], found[2]) if found else image
    if not found or vae.decoded_shape(latent) != image:
        raise UserError(
            f"{vae.folder} does not decode images of side {data.image_size} to that side; set data.image_size to a "
            "multiple of the factor by which it makes images smaller"
        )
    return latent


def _manifest(data: DataOptions, vae: Vae, latent: tuple[int, int, int], count: int) -> LatentManifest:
    """What the latents of a split are. Raises UserError where the autoencoder's configuration has no usable scale."""
    text = data.text_encoder
    try:
        return LatentManifest(
            quantity="mean_logvar" if vae.has_posterior else "sample",
            encoder_input=(-1.0, 1.0),
            already_scaled=False,
            scale=vae.scale,
            shift=vae.shift,
            flips="pair" if data.family.is_flipped(data) else "none",
            shape=latent,
            count=count,
            num_classes=data.num_classes,
            captions=StoredCaptions(tokens=text.tokens, width=text.width) if text else None,
            encoder=f"{vae.kind} of diffusers, {vae.folder.resolve().name}, sha256 {vae.sha256}",
            text_encoder=f"{text.name}, sha256 {encoder_sha256(text)}" if text else "",
        )
    except ValidationError as error:
        reason = validation_problems(error, LatentManifest)[0].message
    except (TypeError, ValueError, ArithmeticError) as error:
        reason = str(error)
    keys = "scaling_factor, shift_factor, latents_mean or latents_std"
    raise UserError(f"{vae.folder / VAE_FILES[0]}: no latents can be scaled by its {keys} ({reason}); correct it")


def _encode_split(
    request: EncodeRequest,
    vae: Vae,
    encoder: TextEncoder | None,
    job: dict[str, Any],
    name: str,
    split: DataSplit,
    manifest: LatentManifest,
    report: ReportProgress,
) -> None:
    """Write the shards of a split that are not there, and the manifest. Raises OutputError for other files in place."""
    # What is there.
    folder = request.out / name
    rows_of = {}
    for number, first in enumerate(range(0, len(split), request.shard_samples)):
        rows = range(first, min(first + request.shard_samples, len(split)))
        rows_of[folder / f"latents-{number:05d}.safetensors"] = rows
    marks = {path: canonical_json([job, name, rows.start]) for path, rows in rows_of.items()}
    missing = []
    refuse_irregular(folder / MANIFEST)
    for path, mark in marks.items():
        refuse_irregular(path)
        if not path.exists():
            missing.append(path)
            continue
        found = None
        with suppress(OSError, SafetensorError), safe_open(path, framework="pt") as file:
            found = (file.metadata() or {}).get(GENERATOR)
        if found != mark:
            rule = "one folder holds one encoding: give another --out, or move it away"
            raise OutputError(f"{path} is damaged, or belongs to another encoding or place in it; {rule}")
    done = len(split) - sum(len(rows_of[path]) for path in missing)
    report(name, done, len(split))

    def read(index: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        return split.images(index), split.labels(index)

    # Each missing shard, complete or not at all; the next images are read meanwhile.
    for path in missing:
        rows = rows_of[path]
        chunks = np.split(np.arange(rows.start, rows.stop), range(CHUNK, len(rows), CHUNK))
        parts: list[dict[str, Tensor]] = []
        with ThreadPoolExecutor(_WORKERS) as threads:
            for begin in range(0, len(chunks), _AHEAD):
                some = chunks[begin : begin + _AHEAD]
                for index, (images, labels) in zip(some, threads.map(read, some), strict=True):
                    parts.append({**_latents(request, vae, images, f"{name}, image {index[0]}"), "labels": labels})
                    done += len(labels)
                    report(name, done, len(split))
        tensors = {key: torch.cat([part[key] for part in parts]).contiguous() for key in parts[0]}
        if encoder is not None and isinstance(split, CaptionedImages):
            tensors |= _captions(split, rows, encoder)
        with replacing(path) as temporary:
            save_file(tensors, temporary, {GENERATOR: marks[path]})

    # What they are.
    complete = manifest.model_copy(update={"files": {path.name: content_sha256(str(path)) for path in rows_of}})
    if missing or not (folder / MANIFEST).exists():
        write_document(folder / MANIFEST, complete)
    elif read_json(folder / MANIFEST) != complete.model_dump(mode="json"):
        raise OutputError(f"{folder / MANIFEST} is not what encode wrote; move it away, and run the same command again")


def _latents(request: EncodeRequest, vae: Vae, images: Tensor, where: str) -> dict[str, Tensor]:
    """Moments (B, 2C, H, W) or latents (B, C, H, W) of images, and of mirrored ones, by their names in a shard."""
    key = "moments" if vae.has_posterior else "latents"
    each = {key: images}
    if request.data.family.is_flipped(request.data):
        each[f"{key}_flip"] = images.flip(-1)
    found = {}
    for name, pixels in each.items():
        found[name] = vae.encode(pixels.to(request.device)).cpu().to(DTYPES[request.dtype])
        if not torch.isfinite(found[name]).all():
            raise UserError(
                f"{where} and the following {len(images) - 1}: a latent contains NaN, or values that {request.dtype} "
                "does not hold; look at the images, or store --dtype float32"
            )
    return found


def _captions(split: CaptionedImages, rows: range, encoder: TextEncoder) -> dict[str, Tensor]:
    """Tensors that hold the captions of some samples of a split."""
    each = split.texts.each[rows.start : rows.stop]
    captions = [caption for several in each for caption in several]
    report_cut_off(split.settings, cut_off(encoder, split.settings, captions), len(captions))
    features = encoded(encoder, split.settings, [EMPTY, *captions])
    contents = [caption.encode("utf-8", "surrogatepass") for caption in captions]
    return {
        TEXT: features[1:].clone(),
        EMPTY_TEXT: features[0].clone(),
        COUNTS: torch.tensor([len(several) for several in each]),
        CAPTIONS: torch.frombuffer(bytearray(b"".join(contents)), dtype=torch.uint8),
        CAPTION_BYTES: torch.tensor([len(content) for content in contents]),
    }
