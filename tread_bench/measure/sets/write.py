"""Samples as ADM's evaluator takes them: an .npz file of images and classes, written image by image."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.stored.files import replacing
from tread_bench.measure.sets.samples import IMAGES

LABELS = "arr_1"  # where ADM's files have classes


def write_samples_npz(
    path: Path,
    batches: Iterable[Tensor],
    count: int,
    shape: tuple[int, int, int],
    labels: NDArray[np.integer] | None = None,
    progress: Callable[[int, int], object] = lambda done, of: None,
    overwrite: bool = False,
) -> None:
    """Write images to an .npz file in ADM's format, one batch in memory at a time. The file appears complete or not.

    Equal images give equal bytes.

    Args:
        batches: images (B, C, H, W), uint8, in order; `arr_0` holds them as (count, H, W, C).
        count: images in all.
        shape: (C, H, W).
        labels: (count,) integers, their classes, in `arr_1` as int64; None: there are none.
        progress: called with (images written, count).
        overwrite: whether a file at `path` is replaced.

    Raises:
        OutputError: `path` is a link, a device or a folder; or a file, without `overwrite`.
        ValueError: the batches have other images than count and shape say, or the labels another number.

    Source of the format: Dhariwal and Nichol 2021, guided_diffusion, scripts/image_sample.py.
    """
    # Refuse before anything is written.
    if labels is not None:
        labels = np.ascontiguousarray(labels, np.int64)
        if labels.shape != (count,):
            raise ValueError(f"labels of shape {labels.shape} for {count} images; give one for each, (count,)")

    # The images, one batch after the other.
    channels, height, width = shape
    with replacing(path, overwrite) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        with archive.open(zipfile.ZipInfo(f"{IMAGES}.npy"), "w", force_zip64=True) as member:
            header = {"descr": "|u1", "fortran_order": False, "shape": (count, height, width, channels)}
            npy.write_array_header_1_0(member, header)
            done = 0
            progress(done, count)
            for images in batches:
                done += len(images)
                if images.shape[1:] != shape or done > count:
                    wrong = f"{done} images of shape {tuple(images.shape[1:])}"
                    raise ValueError(f"{wrong} where {count} of {shape} follow")
                member.write(images.permute(0, 2, 3, 1).contiguous().numpy().data)
                progress(done, count)
            if done != count:
                raise ValueError(f"{done} images were given where {count} were expected")

        # Their classes.
        if labels is not None:
            with archive.open(zipfile.ZipInfo(f"{LABELS}.npy"), "w", force_zip64=True) as member:
                npy.write_array(member, labels)
