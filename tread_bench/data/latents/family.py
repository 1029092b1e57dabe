"""Latents on disk as a data source, without torch."""

from __future__ import annotations

from collections.abc import Iterator

from tread_bench.core.describe.data_sources import DataFamily, Decoding, Place, decoder_files
from tread_bench.core.stored.data_paths import expanded, folder_name, is_folder_name
from tread_bench.data.images.family import counted
from tread_bench.data.latents.manifest import manifests_of
from tread_bench.data.latents.options import LatentsData, empty_text_file, holds_image_files, units
from tread_bench.data.parquet.family import SUFFIXES


def _files(options: LatentsData, generates: bool) -> Iterator[tuple[Place, str]]:
    # Latents, and the manifests beside them.
    for key, entries in (("train", options.train), ("held_out", options.held_out)):
        for i, entry in enumerate(entries):
            found = units(options, (entry,))
            yield from (((key, i), path) for path in found)
            folders = tuple(path for path in found if is_folder_name(path))
            beside = filter(lambda path: not path.startswith(folders), map(str, manifests_of([entry])))
            yield from (((key, i), path) for path in beside)

    # Arrays of the scale, and images beside the latents.
    for key in ("scale", "shift"):
        if isinstance(path := getattr(options, key), str):
            yield (key,), path
    if options.train_images is not None:
        yield ("train_images",), folder_name(options.train_images)
    if (path := empty_text_file(options)) is not None:
        yield (), path

    # What samples become, and what they are compared with.
    if generates:
        for i, entry in enumerate(options.images):
            found = [folder_name(entry)] if holds_image_files(entry) else expanded([entry], SUFFIXES)
            yield from ((("images", i), file) for file in found)
        if options.decoder is not None:
            yield from ((("decoder",), file) for file in decoder_files(options.decoder))


def _not_comparable(options: LatentsData) -> str:
    missing = " and ".join(f"data.{key}" for key in ("decoder", "images") if not getattr(options, key))
    if not missing:
        return ""
    return (
        f"data latents without {missing}: samples are evaluated as decoded images, against real ones; give both "
        "decoder and images, or set metrics.generate: false"
    )


def _decoding(options: LatentsData) -> Decoding | None:
    if options.decoder is None:
        return None
    return Decoding(options.decoder, options.scale, options.decoded_size, options.shift, pixels=options.encoder_input)


def _counts(options: LatentsData) -> tuple[int, int] | None:
    """By headers, names and labels; opening a set needs no torch."""
    from tread_bench.data.latents.store import Store  # needs documents, which need all data sources

    return counted(options, lambda entries: len(Store(options, units(options, entries)).labels))


LATENTS = DataFamily(
    name="latents",
    options=LatentsData,
    builder="tread_bench.data.latents.source:open_latents",
    files=_files,
    not_comparable=_not_comparable,
    extractor=None,
    counts=_counts,
    check_files="tread_bench.data.latents.source:file_problems",
    decoding=_decoding,
    has_pictures=lambda options: options.train_images is not None,
    has_published_fids=True,
)
