"""What every data source keeps to, as checks that its author runs.

    from tread_bench.contract import check_data

    def test_the_contract_holds(tmp_path):
        first, second = (write_my_files(tmp_path / str(seed), seed) for seed in (0, 1))
        assert check_data(DATA, {"train": first}, changed={"train": second}) == []

A few hundred samples are enough: every one is read several times.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tread_bench.core.describe.data_sources import DataFamily, DataOptions, Place, find_data_source
from tread_bench.core.describe.plugins import by_name, named
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.core.stored.data_paths import is_folder_name
from tread_bench.data.source import CaptionedSplit, DataSource, DataSplit

BATCH = 64
STAND_IN = 64  # training samples


@dataclass(frozen=True)
class DataSubject:
    """A data source with its options, and with options of the same kind that lead to other content, or none."""

    family: DataFamily
    options: DataOptions
    changed: DataOptions | None = None

    def opened(self, options: DataOptions | None = None) -> DataSource:
        source: DataSource = named(self.family.builder)(options or self.options, None)
        return source

    @property
    def is_comparable(self) -> bool:
        """Whether samples can be compared with its real images."""
        return not self.family.not_comparable(self.options)


def check_shape(subject: DataSubject) -> Iterator[str]:
    """Both parts hold what the options say: float32, of that shape, finite, and images in [-1, 1]."""
    options, source = subject.options, subject.opened()
    shape = (options.channels, options.image_size, options.image_size)
    if source.num_classes != options.num_classes:
        yield f"the options say {options.num_classes} classes, and the source {source.num_classes}"
    is_image = subject.is_comparable and subject.family.decoding(options) is None
    for name, part in _parts(source):
        if not len(part) or tuple(part.shape) != shape:
            yield f"{name}: expected samples of shape {shape}; saw {len(part)} of shape {tuple(part.shape)}"
            continue
        for index in _batches(part):
            images = part.images(index)
            if images.shape != (len(index), *shape) or images.dtype != torch.float32:
                yield f"{name}: expected float32 {(len(index), *shape)}; saw {images.dtype} {tuple(images.shape)}"
                break
            if not images.isfinite().all() or (is_image and images.abs().max() > 1):
                yield f"{name}: expected {'values in [-1, 1]' if is_image else 'finite values'}; saw {_range(images)}"
                break


def check_counts(subject: DataSubject) -> Iterator[str]:
    """What the description counts by headers is what is there."""
    counts = subject.family.counts(subject.options)
    found = tuple(len(part) for _, part in _parts(subject.opened()))
    if counts is not None and tuple(counts) != found:
        yield f"its counts are {tuple(counts)}; opened, it has {found} training and held-out samples"


def check_labels(subject: DataSubject) -> Iterator[str]:
    """Labels are int64 in 0 .. num_classes - 1, and 0 where there are no classes."""
    last = max(subject.options.num_classes, 1) - 1
    for name, part in _parts(subject.opened()):
        labels = part.labels(np.arange(len(part)))
        if labels.shape != (len(part),) or labels.dtype != torch.int64:
            yield f"{name}: expected int64 ({len(part)},); saw {labels.dtype} {tuple(labels.shape)}"
        elif labels.min() < 0 or labels.max() > last:
            yield f"{name}: expected labels in 0 .. {last}; saw {int(labels.min())} .. {int(labels.max())}"


def check_order(subject: DataSubject) -> Iterator[str]:
    """A sample is the same in any order and any batch, and so is its label."""
    for name, part in _parts(subject.opened()):
        images, labels = _all(part)
        generator = np.random.default_rng(0)
        backwards = np.arange(len(part))[::-1].copy()
        shuffled = generator.permutation(len(part))
        twice = generator.integers(0, len(part), 2 * BATCH)
        one_by_one = [np.array([index]) for index in generator.integers(0, len(part), 8)]
        for index in (backwards, shuffled, twice, *one_by_one):
            if not torch.equal(part.images(index), images[torch.from_numpy(index)]):
                yield f"{name}: a sample depends on the order, or on the batch, in which it is read"
                break
        if any(not torch.equal(part.labels(index), labels[torch.from_numpy(index)]) for index in (shuffled, twice)):
            yield f"{name}: a label depends on the order in which it is read"


def check_split(subject: DataSubject) -> Iterator[str]:
    """No held-out sample is one of the training samples."""
    source = subject.opened()
    train, held_out = ([image.numpy().tobytes() for image in _all(part)[0]] for _, part in _parts(source))
    known = set(train)
    if shared := [index for index, image in enumerate(held_out) if image in known]:
        yield f"{len(shared)} of {len(held_out)} held-out samples are training samples, the first is {shared[0]}"


def check_again(subject: DataSubject) -> Iterator[str]:
    """Opened twice, it is the same: it draws from no generator that others use."""
    torch.manual_seed(0)
    np.random.seed(0)
    first = subject.opened()
    images = {name: _all(part) for name, part in _parts(first)}
    torch.manual_seed(1)
    np.random.seed(1)
    second = subject.opened()
    for name, part in _parts(second):
        if len(part) != len(images[name][0]) or not all(map(torch.equal, _all(part), images[name])):
            yield f"{name}: opened twice, it has other samples or labels: draw from a generator of its own, by index"
    if first.sha256 != second.sha256:
        yield "opened twice, it has two fingerprints (sha256)"


def check_fingerprint(subject: DataSubject) -> Iterator[str]:
    """The fingerprint changes with the content, and with nothing else: not with the place of a file."""
    source = subject.opened()
    if source.train.sha256 == source.held_out.sha256:
        yield "training and held-out samples have one fingerprint"
    if subject.changed is None:
        return
    with TemporaryDirectory() as folder:
        # The same files elsewhere.
        there = _copied(subject.family, subject.options, Path(folder))
        if subject.opened(there).sha256 != source.sha256:
            yield "the same files at another place have another fingerprint"

        # Other content at that place.
        there = _copied(subject.family, subject.changed, Path(folder))
        other = subject.opened(there)
        for (name, part), (_, changed) in zip(_parts(source), _parts(other), strict=True):
            is_same = all(map(torch.equal, _all(part), _all(changed)))
            if not is_same and part.sha256 == changed.sha256:
                yield f"{name}: other samples have the same fingerprint"
        if all(map(torch.equal, _all(source.train), _all(other.train))):
            yield "`changed` leads to the same training samples: give options that lead to others"


def check_captions(subject: DataSubject) -> Iterator[str]:
    """If the options state a shape of text, both parts have captions whose features have it, drawn by seed and sample
    number alone; without one they have none.
    """
    shape = subject.options.text_shape
    for name, part in _parts(subject.opened()):
        if shape is not None and isinstance(part, CaptionedSplit):
            yield from _caption_problems(name, part, min(BATCH, len(part)), shape)
        elif shape is not None or isinstance(part, CaptionedSplit):
            yield f"{name}: the options say text_shape={shape}, and it is a {type(part).__name__}"


def _caption_problems(name: str, part: CaptionedSplit, count: int, shape: tuple[int, int]) -> Iterator[str]:
    # Shapes and types.
    index = np.arange(count)
    text, captions = part.text(index, 0, 0), part.captions(index, 0, 0)
    for what, found, expected in (("text", text, (count, *shape)), ("the empty text", part.empty_text, shape)):
        if tuple(found.shape) != expected or found.dtype != torch.float32 or not torch.isfinite(found).all():
            yield f"{name}: expected {what} as finite float32 {expected}; saw {found.dtype} {tuple(found.shape)}"
            return
    if len(captions) != count or not all(isinstance(caption, str) for caption in captions):
        yield f"{name}: expected {count} captions as texts; saw {len(captions)}"

    # Draws.
    one_by_one = [part.text(index[place : place + 1], 0, place) for place in range(count)]
    if not torch.equal(torch.cat(one_by_one), text) or part.captions(index, 0, 0) != captions:
        yield f"{name}: a caption depends on more than the seed, the sample's number and the sample"


def check_real_images(subject: DataSubject) -> Iterator[str]:
    """Where samples can be compared with real images, these are uint8, as many as it says, in any size of batch."""
    if not subject.is_comparable:
        return
    reference = subject.opened().reference
    channels, side = subject.options.picture_shape
    batches, one_by_one = list(reference.batches(BATCH)), list(reference.batches(1))
    images = torch.cat(batches)
    if images.shape != (len(reference), channels, side, side) or images.dtype != torch.uint8:
        expected = (len(reference), channels, side, side)
        yield f"expected uint8 {expected}; saw {images.dtype} {tuple(images.shape)}"
    if not torch.equal(images, torch.cat(one_by_one)):
        yield "real images depend on the size of the batch"


def check_files(subject: DataSubject) -> Iterator[str]:
    """Files without a mistake are found to have none."""
    for key in ("check_files", "check_all"):
        if code := getattr(subject.family, key):
            yield from (f"{key} reports of good files: {message}" for message in named(code)(subject.options, True))


def check_stand_in(subject: DataSubject) -> Iterator[str]:
    """A stand-in has the samples that were requested, in files of its folder, and differs in nothing else."""
    family, options = subject.family, subject.options
    if family.stand_in is None:
        return
    with TemporaryDirectory() as folder:
        standing = named(family.stand_in)(options, Path(folder), STAND_IN)
        files = list(family.files(standing, subject.is_comparable))
        outside = [path for _, path in files if not Path(path).resolve().is_relative_to(Path(folder).resolve())]
        if not files or outside:
            yield f"expected files in its folder; saw {', '.join(outside) or 'none'}"
        source = subject.opened(standing)
        found = tuple(len(part) for _, part in _parts(source))
        expected = STAND_IN, max(16, STAND_IN // 4)
        if found != expected:
            yield f"expected {expected} training and held-out samples; saw {found}"
        if not outside:
            stands_for = DataSubject(family, standing)
            for check in (check_shape, check_labels, check_captions, check_real_images):
                yield from check(stands_for)
        shape = ("image_size", "channels", "num_classes", "picture_shape", "text_shape")
        if any(getattr(standing, key) != getattr(options, key) for key in shape):
            yield f"its options have another shape than those that it stands in for: {standing}"


def _parts(source: DataSource) -> tuple[tuple[str, DataSplit], tuple[str, DataSplit]]:
    return ("train", source.train), ("held_out", source.held_out)


def _batches(part: DataSplit) -> Iterator[NDArray[np.int64]]:
    for first in range(0, len(part), BATCH):
        yield np.arange(first, min(first + BATCH, len(part)))


def _all(part: DataSplit) -> tuple[Tensor, Tensor]:
    """All samples and labels in their order, cloned: a source may reuse its memory."""
    pairs = [(part.images(index).clone(), part.labels(index).clone()) for index in _batches(part)]
    return torch.cat([images for images, _ in pairs]), torch.cat([labels for _, labels in pairs])


def _range(images: Tensor) -> str:
    return f"{float(images.min()):g} .. {float(images.max()):g}"


def _copied(family: DataFamily, options: DataOptions, folder: Path) -> DataOptions:
    """The options with copies of the files and folders that they name, each at the same place whatever its content.

    Where one place names several files, as a folder or a glob does, it becomes a folder with all of them.
    """
    values = options.model_dump(mode="json")
    paths_of: dict[Place, list[str]] = {}
    for place, path in family.files(options, True):
        if place:
            paths_of.setdefault(place, []).append(path)
    for number, (place, paths) in enumerate(paths_of.items()):
        there = folder / str(number)
        shutil.rmtree(there, ignore_errors=True)  # what is mapped into memory stays as it is
        there.mkdir()
        if len(paths) == 1:
            copy = there / f"data{Path(paths[0]).suffix}"
            _copy(paths[0], copy)
            _put(values, place, str(copy))
            continue
        above = os.path.commonpath(paths)
        for path in paths:
            _copy(path, there / os.path.relpath(path, above))
        _put(values, place, str(there))
    return family.options.model_validate(values)


def _copy(path: str, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    if is_folder_name(path):
        shutil.copytree(path, copy)
    else:
        shutil.copyfile(path, copy)


def _put(values: Any, place: Place, value: str) -> None:
    *path, last = place
    for key in path:
        values = values[key]
    values[last] = value


DATA_CHECKS: tuple[Callable[[DataSubject], Iterator[str]], ...] = (
    check_shape,
    check_counts,
    check_labels,
    check_order,
    check_split,
    check_again,
    check_fingerprint,
    check_captions,
    check_real_images,
    check_files,
    check_stand_in,
)


def check_data(
    data: DataFamily | str, options: Mapping[str, Any] | None = None, *, changed: Mapping[str, Any] | None = None
) -> list[Violation]:
    """Return the violations of the contract by a data source, in the order of `DATA_CHECKS`; empty if there are none.

    Args:
        data: what is announced in the group `tread_bench.data_sources`, or its name; it must be installed.
        options: as a suite writes them.
        changed: options of the same source that lead to other samples, such as files with other content. A source
            that reads files needs them: its fingerprint must tell the two apart.

    Raises:
        ValueError: the options are not valid, or a source that reads files has no `changed`.
    """
    data = by_name(data, find_data_source)
    chosen = data.options.model_validate({"name": data.name, **(options or {})})
    if changed is None and any(place for place, _ in data.files(chosen, True)):
        raise ValueError(f"data source {data.name} reads files: give `changed`, options that lead to other content")
    other = None if changed is None else data.options.model_validate({"name": data.name, **changed})
    subject = DataSubject(data, chosen, other)
    with random_state_kept():
        return run_checks(DATA_CHECKS, subject)


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Restore the global generators of torch (CPU) and NumPy afterwards."""
    numpy_state = np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        np.random.set_state(numpy_state)
