"""Images to latents, captions to features: shards that a later start resumes, and a manifest of what they are."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tread_bench.core.describe.data_sources import VAE_FILES, DataOptions
from tread_bench.core.errors import UserError
from tread_bench.core.numbers.draws import normal
from tread_bench.core.problems import validation_problems
from tread_bench.core.progress import ReportProgress
from tread_bench.core.stored.data_files import content_sha256
from tread_bench.core.stored.files import read_json, replacing, write_json
from tread_bench.core.stored.foreign import open_file
from tread_bench.core.stored.identity import canonical_json
from tread_bench.core.stored.outputs import OutputError, refuse_irregular
from tread_bench.data.encode.captions import TextToStore
from tread_bench.data.encode.job import GENERATOR, SPLITS, Images, Job, claimed
from tread_bench.data.encode.vae import CHUNK, Vae
from tread_bench.data.latents.manifest import LOGVAR_RANGE, MANIFEST, LatentManifest, Quantity, StoredCaptions
from tread_bench.data.loader import Loader
from tread_bench.data.open import open_data
from tread_bench.data.source import DataSource, DataSplit, tensors_sha256

MIB = 2**20
_SHARD_BYTES = 256 * MIB
_ENCODER_INPUT = (-1.0, 1.0)
_SCALING = ("scaling_factor", "shift_factor", "latents_mean", "latents_std")  # of an autoencoder's configuration
_DTYPES = {"float32": torch.float32, "float16": torch.float16}
_LONGEST_HEADER = 2**20
_MAX_WORKERS = 8  # threads that read images


@dataclass(frozen=True, slots=True)
class EncodeRequest:
    """What to encode, how, and where to.

    Args:
        quantity: None: what the autoencoder gives, moments or a latent.
        seed: of the noise, where samples are drawn from moments.
        shard_samples: samples in a file; None: as many as fit 256 MiB.
    """

    data: DataOptions
    vae: Path
    out: Path
    quantity: Quantity | None = None
    dtype: Literal["float32", "float16"] = "float32"
    seed: int = 0
    device: str = "cpu"
    shard_samples: int | None = None


def encode(request: EncodeRequest, report: ReportProgress) -> Job:
    """Write `out`/train and `out`/held_out: shards of latents and manifest.json. Files that are whole are kept.

    Raises:
        UserError: the data are not images that the autoencoder takes, or `out` cannot be written to.
    """
    # What is encoded, and by what.
    data = request.data
    if data.family.decoding(data) is not None or data.family.not_comparable(data):
        raise UserError(f"data {data.name} holds latents; encode takes a data source of images")
    vae = Vae(request.vae).to(request.device)
    source = open_data(data)
    text = TextToStore.of(source)
    if text is None and data.text_shape is not None:
        raise UserError(f"data {data.name} encodes its captions itself, and does not give them to others")
    job = _job(request, vae, source, text)
    manifests = {name: _manifest(job, vae, data.num_classes, getattr(job, name).count) for name in SPLITS}

    # Both splits, shard by shard.
    with claimed(request.out, job):
        splits = [_Split(request, job, vae, name, getattr(source, name), manifests[name], text) for name in SPLITS]
        _check_space(request.out, sum(split.missing_bytes for split in splits))
        for split in splits:
            split.write(report)
        if text is not None:
            text.report_cut_off()
    return job


def _job(request: EncodeRequest, vae: Vae, source: DataSource, text: TextToStore | None) -> Job:
    """What the latents depend on. Raises UserError where the autoencoder does not take the images."""
    # Shapes.
    data = request.data
    image = (data.channels, data.image_size, data.image_size)
    if (takes := vae.config["in_channels"]) != data.channels:
        raise UserError(
            f"{vae.folder} encodes images of {takes} channels, and these have {data.channels}; name another autoencoder"
        )
    encoded = vae.encoded_shape(image)
    channels = encoded[0] // (2 if vae.has_posterior else 1) if encoded else 0
    latent = (channels, *encoded[1:]) if encoded else image
    if not encoded or vae.decoded_shape(latent) != image:
        raise UserError(
            f"{vae.folder} does not decode images of side {data.image_size} to that side; set data.image_size to a "
            "multiple of the factor by which it makes images smaller"
        )

    # Quantity.
    quantity = request.quantity or ("mean_logvar" if vae.has_posterior else "sample")
    if quantity != "sample" and not vae.has_posterior:
        raise UserError(f"--quantity {quantity}: an {vae.kind} encodes to latents without a distribution: use sample")

    # The rest; what training mirrors is encoded mirrored, too.
    def images(part: DataSplit) -> Images:
        return Images(count=len(part), sha256=part.sha256)

    files = {str(place[0]) for place, _ in data.family.files(data, True) if place}
    bytes_each = _bytes_each(latent, quantity, request.dtype) + (text.bytes_of_sample if text else 0)
    return Job(
        data=data.model_dump(mode="json", exclude={*files, "captions"}),
        train=images(source.train),
        held_out=images(source.held_out),
        autoencoder=vae.kind,
        autoencoder_sha256=vae.sha256,
        image=image,
        latent=latent,
        is_mirrored=data.family.is_flipped(data),
        quantity=quantity,
        dtype=request.dtype,
        seed=request.seed if quantity == "sample" and vae.has_posterior else None,
        shard_samples=request.shard_samples or max(CHUNK, _SHARD_BYTES // bytes_each // CHUNK * CHUNK),
        text=text.job if text else None,
    )


def _manifest(job: Job, vae: Vae, num_classes: int, count: int) -> LatentManifest:
    """What the latents of a split are. Raises UserError where the autoencoder's configuration has no usable scale."""
    try:
        return LatentManifest(
            quantity=job.quantity,
            encoder_input=_ENCODER_INPUT,
            already_scaled=False,
            scale=vae.scale,
            shift=vae.shift,
            flips="pair" if job.is_mirrored else "none",
            shape=job.latent,
            count=count,
            num_classes=num_classes,
            captions=StoredCaptions(tokens=job.text.tokens, width=job.text.width) if job.text else None,
            encoder=f"{job.autoencoder} of diffusers, {vae.folder.resolve().name}, sha256 {vae.sha256}",
            text_encoder=f"{job.text.encoder}, sha256 {job.text.encoder_sha256}" if job.text else "",
        )
    except ValidationError as error:
        reasons = [problem.message for problem in validation_problems(error, LatentManifest)]
    except (TypeError, ValueError, ArithmeticError) as error:
        reasons = [str(error)]
    stated = ", ".join(f"{key} {vae.config[key]!r}" for key in _SCALING if key in vae.config)
    raise UserError("\n".join(f"{vae.folder / VAE_FILES[0]}: {stated}: {reason}; correct it" for reason in reasons))


def _bytes_each(latent: tuple[int, ...], quantity: Quantity, dtype: str) -> int:
    """Of what is stored of one image."""
    return int(np.prod(latent)) * (1 if quantity == "sample" else 2) * _DTYPES[dtype].itemsize


def _check_space(out: Path, needed: int) -> None:
    """Raises OutputError where the disk has no room for the missing shards."""
    if (free := shutil.disk_usage(out).free) < needed:
        raise OutputError(
            f"--out {out}: the latents need another {needed / MIB:,.0f} MiB and {free / MIB:,.0f} MiB are free; free "
            "some space, give an --out on another disk, or store --dtype float16"
        )


class _Split:
    """The shards and the manifest of one split.

    Args:
        manifest: without the files.

    Raises:
        OutputError: a file in their places is not of this job.
    """

    def __init__(
        self,
        request: EncodeRequest,
        job: Job,
        vae: Vae,
        name: str,
        samples: DataSplit,
        manifest: LatentManifest,
        text: TextToStore | None,
    ) -> None:
        self.request = request
        self.job = job
        self.vae = vae
        self.name = name
        self.samples = samples
        self.manifest = manifest
        self.text = text
        self.folder = request.out / name
        step = job.shard_samples
        self.shards = {
            self.folder / f"latents-{number:05d}.safetensors": range(first, min(first + step, len(samples)))
            for number, first in enumerate(range(0, len(samples), step))
        }
        refuse_irregular(self.folder / MANIFEST)
        for path in self.shards:
            refuse_irregular(path)
            self._check_owner(path)

    @cached_property
    def missing(self) -> list[Path]:
        """Shards that are not there, or not as they were written."""
        return [path for path in self.shards if not self._is_whole(path)]

    @property
    def missing_bytes(self) -> int:
        each = _bytes_each(self.job.latent, self.job.quantity, self.job.dtype) * (1 + self.job.is_mirrored)
        each += self.text.bytes_of_sample if self.text else 0
        return sum(len(self.shards[path]) for path in self.missing) * each

    def write(self, report: ReportProgress) -> None:
        """Write the missing shards, then the manifest."""
        done = len(self.samples) - sum(len(self.shards[path]) for path in self.missing)
        report(self.name, done, len(self.samples))
        for path in self.missing:
            done = self._write_shard(path, done, report)
        self._write_manifest()

    def _write_shard(self, path: Path, done: int, report: ReportProgress) -> int:
        """Encode one shard; the number of samples that are done then."""
        # Encode it, while the next images are read.
        rows = self.shards[path]
        firsts = range(rows.start, rows.stop, CHUNK)
        workers = min(_MAX_WORKERS, os.cpu_count() or 1)
        parts: list[dict[str, Tensor]] = []
        with Loader(lambda first: self._read(first, rows.stop), firsts, workers) as batches:
            for first, (images, labels) in zip(firsts, batches, strict=True):
                parts.append({**self._stored(images, first), "labels": labels})
                done += len(labels)
                report(self.name, done, len(self.samples))
        tensors = {name: torch.cat([part[name] for part in parts]).contiguous() for name in parts[0]}
        if self.text is not None:
            tensors |= self.text.of_rows(self.samples, rows, self.request.device)

        # Write it, complete or not at all.
        with replacing(path) as temporary:
            about = {**self._owner(path), "content": tensors_sha256(tensors)}
            # In one entry: the library stores several in any order, and a shard has the same bytes each time.
            save_file(tensors, temporary, {GENERATOR: canonical_json(about)})
        return done

    def _read(self, first: int, stop: int) -> tuple[Tensor, Tensor]:
        """Images (B, C, S, S) and labels (B,) of at most one chunk."""
        index = np.arange(first, min(first + CHUNK, stop))
        return self.samples.images(index), self.samples.labels(index)

    def _stored(self, images: Tensor, first: int) -> dict[str, Tensor]:
        """What is stored of images, by its name in the file."""
        key = "latents" if self.job.quantity == "sample" else "moments"
        found = {key: self._latents(images, first, "")}
        if self.job.is_mirrored:
            found[f"{key}_flip"] = self._latents(images.flip(-1), first, " mirrored")
        return found

    def _latents(self, images: Tensor, first: int, which: str) -> Tensor:
        """(B, C, H, W) samples or (B, 2C, H, W) moments, of the sample `first` and the following ones."""
        # From pixels to the quantity that is stored.
        encoded = self.vae.encode(images.to(self.request.device)).float().cpu()
        if self.vae.has_posterior and self.job.quantity != "mean_logvar":
            mean, log_variance = encoded.chunk(2, dim=1)
            std = torch.exp(0.5 * log_variance.clamp(*LOGVAR_RANGE))
            if self.job.seed is None:
                encoded = torch.cat([mean, std], dim=1)
            else:
                noise = normal(self.job.seed, f"encode {self.name}{which}", first, len(images), self.job.latent)
                encoded = mean + std * torch.from_numpy(noise)

        # Values that the type does not hold are refused.
        stored = encoded.to(_DTYPES[self.job.dtype])
        is_finite = torch.isfinite(stored).flatten(1).all(1)
        if not is_finite.all():
            number = first + int(is_finite.int().argmin())
            raise UserError(
                f"{self.name}{which}, image {number}: its latent contains NaN, or values that {self.job.dtype} does "
                "not hold; look at the image, or store --dtype float32"
            )
        return stored

    def _owner(self, path: Path) -> dict[str, str]:
        """What a shard's metadata say of whose it is."""
        return {"job": self.job.digest, "split": self.name, "first": str(self.shards[path].start)}

    def _check_owner(self, path: Path) -> None:
        if not path.exists() or not path.stat().st_size:
            return
        found = _header_of(path)
        if any(found.get(key) != value for key, value in self._owner(path).items()):
            raise OutputError(f"{path} belongs to another encoding, or to another place in it; move it away")

    def _is_whole(self, path: Path) -> bool:
        """Whether a shard has the content that was written."""
        try:
            return _header_of(path).get("content") == tensors_sha256(load_file(path))
        except (OSError, SafetensorError):
            return False

    def _write_manifest(self) -> None:
        """Write what the shards are. Raises OutputError where another manifest is in its place."""
        files = {path.name: content_sha256(str(path)) for path in self.shards}
        path = self.folder / MANIFEST
        content = self.manifest.model_copy(update={"files": files}).model_dump(mode="json")
        there = read_json(path)
        if there is None:
            write_json(path, content)
        elif there != content:
            raise OutputError(f"{path} is not what encode wrote; move it away, and run the same command again")


def _header_of(path: Path) -> dict[str, str]:
    """What a shard says of itself, also a truncated one; {} if nothing."""
    with open_file(path) as file:
        length = int.from_bytes(file.read(8), "little")
        head = file.read(min(length, _LONGEST_HEADER))
    try:
        about = json.loads(json.loads(head)["__metadata__"][GENERATOR])
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}
