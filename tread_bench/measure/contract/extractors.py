"""The contract of feature networks, as checks for their authors to run.

from tread_bench.contract import check_extractor

def test_the_contract_holds():
    assert check_extractor(INCEPTION, {"weights": "weights.pth"}, shape=(3, 32)) == []
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from tread_bench.core.describe.extractors import ExtractorFamily, ExtractorOptions, find_extractor
from tread_bench.core.describe.plugins import by_name, named
from tread_bench.core.describe.violations import Violation, run_checks
from tread_bench.measure.quality.features import Extractor, Features

IMAGES = 8
BATCHES = (1, 3)
RELATIVE, ABSOLUTE = 1e-4, 1e-5  # convolutions choose their algorithm by the size of the batch


@dataclass(frozen=True)
class ExtractorSubject:
    """A feature network with its settings, and the channels and side of the images to try it on."""

    family: ExtractorFamily
    options: ExtractorOptions
    shape: tuple[int, int]

    def opened(self) -> Extractor:
        extractor: Extractor = named(self.family.builder)(self.options, self.shape)
        return extractor

    @cached_property
    def extractor(self) -> Extractor:
        return self.opened()

    @cached_property
    def pixels(self) -> Tensor:
        """Grey gradients with noise; the first half bright, the second dark."""
        channels, side = self.shape
        generator = torch.Generator().manual_seed(0)
        ramp = torch.linspace(0, 100, side).expand(IMAGES, channels, side, side).clone()
        ramp[: IMAGES // 2] += 100
        noise = torch.randint(0, 56, (IMAGES, 1, side, side), generator=generator)
        return (ramp + noise).to(torch.uint8)

    @property
    def has_spatial(self) -> bool:
        return self.family.has_spatial

    @cached_property
    def outputs(self) -> Features:
        return self.extractor.features(self.pixels, self.has_spatial)


def check_features(subject: ExtractorSubject) -> Iterator[str]:
    """Its features are finite float32 of the stated width, with logits and spatial features exactly if its description
    says so; otherwise no other check is run.
    """
    extractor = subject.extractor
    if not isinstance(extractor, Extractor):
        yield f"its builder must return a tread_bench.Extractor, not {type(extractor).__name__}"
        return
    if (extractor.spatial_dims is not None) is not subject.has_spatial:
        yield f"its description says has_spatial={subject.has_spatial}, and spatial_dims is {extractor.spatial_dims}"
        return
    features, logits, spatial = subject.outputs
    widths = {"features": (features, extractor.dims), "spatial features": (spatial, extractor.spatial_dims)}
    for name, (found, dims) in widths.items():
        if found is None:
            if dims is not None:
                yield f"expected {name} ({IMAGES}, {dims}); saw None"
        elif tuple(found.shape) != (IMAGES, dims) or found.dtype != torch.float32:
            yield f"expected float32 {name} {(IMAGES, dims)}; saw {found.dtype} {tuple(found.shape)}"
        elif not found.isfinite().all():
            yield f"{name} are NaN or infinite"
    if (logits is not None) is not subject.family.has_logits:
        yield f"its description says has_logits={subject.family.has_logits}, and logits are {_seen(logits)}"
    elif logits is not None and (logits.ndim != 2 or len(logits) != IMAGES or not logits.isfinite().all()):
        yield f"expected finite logits ({IMAGES}, classes); saw {_seen(logits)}"


def check_content(subject: ExtractorSubject) -> Iterator[str]:
    """Different images have different features."""
    features = subject.outputs.pooled
    if torch.equal(features[0], features[-1]):
        yield "a bright image and a dark one have the same features"


def check_batches(subject: ExtractorSubject) -> Iterator[str]:
    """An image's features do not depend on the other images of its batch, except for rounding."""
    for size in BATCHES:
        parts = [subject.extractor.features(pixels, subject.has_spatial) for pixels in subject.pixels.split(size)]
        for name, whole, split in _pairs(subject.outputs, parts):
            if not torch.allclose(whole, split, rtol=RELATIVE, atol=ABSOLUTE):
                furthest = float((whole - split).abs().max())
                yield f"{name} in batches of {size} differ from those in one batch by up to {furthest:g}"
                return


def check_sizes(subject: ExtractorSubject) -> Iterator[str]:
    """If its description says that it resizes images, those that are not square have the same outputs as others."""
    if not subject.family.resizes:
        return
    wide = torch.cat([subject.pixels, subject.pixels], dim=-1)
    for name, square, found in _pairs(subject.outputs, [subject.extractor.features(wide, subject.has_spatial)]):
        if found.shape != square.shape or found.dtype != square.dtype or not found.isfinite().all():
            yield f"expected finite {name} {_seen(square)} of images twice as wide as high; saw {_seen(found)}"


def check_determinism(subject: ExtractorSubject) -> Iterator[str]:
    """Features are the same bit for bit if computed again, also by a second instance, whose identity is the same."""
    torch.manual_seed(0)
    again = subject.extractor.features(subject.pixels, subject.has_spatial)
    torch.manual_seed(1)
    other = subject.opened()
    by_other = other.features(subject.pixels, subject.has_spatial)
    for name, first, second in (*_pairs(subject.outputs, [again]), *_pairs(subject.outputs, [by_other])):
        if not torch.equal(first, second):
            yield f"{name} differ when they are computed again: it draws, or keeps something of what it has seen"
            break
    if other.sha256 != subject.extractor.sha256:
        yield "opened twice, it has two identities (sha256)"


def check_identity(subject: ExtractorSubject) -> Iterator[str]:
    """Its identity is a SHA-256 of its weights."""
    if not re.fullmatch("[0-9a-f]{64}", subject.extractor.sha256):
        yield f"its sha256 must have 64 hexadecimal digits, not {subject.extractor.sha256!r}"


def _pairs(whole: Features, parts: list[Features]) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Features, and logits and spatial features if any: of all images at once, and joined from parts."""
    for name, one, split in zip(
        ("features", "logits", "spatial features"), whole, zip(*parts, strict=True), strict=True
    ):
        if one is not None:
            yield name, one, torch.cat(split)


def _seen(output: Tensor | None) -> str:
    return "None" if output is None else f"{output.dtype} {tuple(output.shape)}"


EXTRACTOR_CHECKS: tuple[Callable[[ExtractorSubject], Iterator[str]], ...] = (
    check_features,
    check_content,
    check_batches,
    check_sizes,
    check_determinism,
    check_identity,
)


def check_extractor(
    extractor: ExtractorFamily | str, options: Mapping[str, Any] | None = None, *, shape: tuple[int, int] = (3, 32)
) -> list[Violation]:
    """Return the violations of the contract by a feature network, in the order of
    `EXTRACTOR_CHECKS`; empty if there are none.

    Args:
        extractor: what is announced in the group `tread_bench.extractors`, or its name; it must be installed.
        options: as a suite writes them, with local files of weights.
        shape: channels and side of the images to try it on.

    Raises:
        ValueError: the options are not valid.
    """
    extractor = by_name(extractor, find_extractor)
    chosen = extractor.options.model_validate({"name": extractor.name, **(options or {})})
    subject = ExtractorSubject(extractor, chosen, shape)
    with torch.random.fork_rng(devices=[]):
        return run_checks(EXTRACTOR_CHECKS, subject, first_decides=True)
