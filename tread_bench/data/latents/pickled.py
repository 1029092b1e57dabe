"""Conversion of latents that their authors store as pickles, read without running what a pickle may contain.

A pickle is a program. Here it may build NumPy arrays and whole numbers, of the functions below, and nothing else.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from safetensors.numpy import save_file

from tread_bench.core.config.base import MAX_NUMBER
from tread_bench.core.data_files import content_sha256
from tread_bench.core.data_paths import expanded
from tread_bench.core.errors import UserError
from tread_bench.core.files import replacing, write_json
from tread_bench.core.latent_manifest import MANIFEST, Flips, LatentManifest
from tread_bench.data.latents.arrays import ascii_number
from tread_bench.data.latents.layouts import SD_VAE_SCALE

_MOST_BYTES = 2**28  # of one sample
_TYPES = {"f2": "<f2", "f4": "<f4", "f8": "<f8"}
_OBJECTS = "O8"
_CLASS_TYPE = "i8"
_SHARD_SAMPLES = 10_000

Sample = tuple[NDArray[np.float32], int]


class _Type:
    """Stands for `numpy.dtype`: floating-point numbers, objects, or the whole numbers of classes."""

    def __init__(self, name: object, align: object = False, copy: object = True) -> None:
        if name not in (*_TYPES, _OBJECTS, _CLASS_TYPE):
            raise _refused(f"type {name!r}")
        self.name = str(name)

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or state[1] not in ("<", "|"):
            raise _refused("an array that is not little-endian")


class _Array:
    """Stands for `numpy.ndarray` while it is built: its content comes with its state."""

    value: Any = None

    def __setstate__(self, state: object) -> None:
        match state:
            case (1, tuple(shape), _Type(name=name), False, content):
                self.value = _array(shape, name, content)
            case _:
                raise _refused("an array in an order or version of its own")


def _array(shape: tuple[object, ...], name: str, content: object) -> Any:
    sides = [side for side in shape if isinstance(side, int) and 0 < side < 2**20]
    if len(sides) != len(shape) or len(shape) > 4:
        raise _refused(f"an array of shape {shape!r}")
    if name == _OBJECTS:
        if not isinstance(content, list) or len(content) != math.prod(sides):
            raise _refused("an array of objects without as many objects")
        return [item.value if isinstance(item, _Array) else item for item in content]
    if name not in _TYPES:
        raise _refused("an array of whole numbers")
    kind = np.dtype(_TYPES[name])
    if not isinstance(content, bytes | bytearray) or len(content) != math.prod(sides) * kind.itemsize:
        raise _refused("an array with other bytes than its shape needs")
    return np.frombuffer(bytes(content), kind).reshape(sides)


def _rebuilt(array_type: object, shape: object, kind: object) -> _Array:
    """`numpy.core.multiarray._reconstruct`, of an empty array."""
    if array_type is not _NDARRAY or shape != (0,) or kind not in (b"b", "b"):
        raise _refused("an array that is not built empty")
    return _Array()


def _from_buffer(content: object, kind: object, shape: object, order: object) -> _Array:
    """`numpy.core.numeric._frombuffer`, of pickles of protocol 5."""
    if not isinstance(kind, _Type) or not isinstance(shape, tuple) or order != "C":
        raise _refused("an array in an order of its own")
    array = _Array()
    array.value = _array(shape, kind.name, content)
    return array


def _scalar(kind: object, content: object) -> int:
    """`numpy.core.multiarray.scalar`, of a class as NumPy has it."""
    if not isinstance(kind, _Type) or kind.name != _CLASS_TYPE or not isinstance(content, bytes) or len(content) != 8:
        raise _refused("a number that is not int64")
    return int.from_bytes(content, "little", signed=True)


def _refused(what: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(f"{what}, where an array of numbers and a class are expected")


def _encoded(text: object, kind: object) -> bytes:
    """`_codecs.encode`, of bytes in pickles before protocol 3."""
    if not isinstance(text, str) or kind != "latin1":
        raise _refused("encoded text")
    return text.encode("latin1")


class _Call:
    """A function that a pickle may call, and not change."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def __call__(self, *values: object) -> object:
        return self._function(*values)

    def __setstate__(self, state: object) -> NoReturn:
        raise _refused("a change of a function")


_NDARRAY = object()  # named by a pickle, never called
_ALLOWED: dict[tuple[str, str], object] = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Call(_Type),
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Call(_rebuilt) for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _Call(_scalar) for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _Call(_from_buffer) for core in ("core", "_core")},
    ("_codecs", "encode"): _Call(_encoded),
}


class _Unpickler(pickle._Unpickler):
    """Builds what `_ALLOWED` names; anything else is refused before it is called.

    The one in Python: that in C allocates whatever number of memo entries a pickle names.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise _refused(f"{module}.{name}")
        return _ALLOWED[module, name]

    def persistent_load(self, pid: object) -> NoReturn:
        raise _refused("a reference to something outside")


def _unpickled(content: bytes, where: str) -> Any:
    """An array or a list of array and number. Raises UserError."""
    try:
        found = _Unpickler(io.BytesIO(content)).load()
    except Exception as error:  # a damaged or hostile pickle may raise anything
        raise UserError(f"{where}: refused: {error}") from None
    return found.value if isinstance(found, _Array) else found


# ---- the two layouts


def _maskdit_samples(folder: Path) -> Iterator[tuple[str, Sample]]:
    """MaskDiT's lmdb2wds.py: shards of `KEY.latent`, a pickled array of moments, and `KEY.cls`, a number in ASCII."""
    for path in expanded([str(folder)], (".tar",)):
        parts: dict[str, dict[str, bytes]] = {}
        try:
            with tarfile.open(path, "r:") as shard:
                for member in shard:
                    key, _, extension = member.name.partition(".")
                    if not member.isreg() or extension not in ("latent", "cls"):
                        continue
                    content = _content(shard, member, path)
                    here = parts.setdefault(key, {})
                    here[extension] = content
                    if len(here) == 2:
                        where = f"{path}: {key}"
                        moments = _moments(_unpickled(here["latent"], where), where)
                        yield where, (moments, ascii_number(here["cls"], f"{where}.cls"))
                        parts[key] = {}
        except (tarfile.TarError, OSError) as error:
            raise UserError(f"{path}: not a readable, uncompressed tar shard ({error})") from None
        if unpaired := [key for key, here in parts.items() if here]:
            raise UserError(f"{path}: {unpaired[0]} has {' and '.join(parts[unpaired[0]])} alone; the shard was cut")


def _content(shard: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> bytes:
    stream = shard.extractfile(member)
    content = b"" if stream is None or member.size > _MOST_BYTES else stream.read()
    if len(content) != member.size:
        raise UserError(f"{path}: {member.name} was cut, or is larger than {_MOST_BYTES:,} bytes")
    return content


def _uvit_samples(folder: Path) -> Iterator[tuple[str, Sample]]:
    """U-ViT's extract_imagenet_feature.py: `{i}.npy`, an array of objects with moments and a class."""
    numbered = {int(path.stem): path for path in folder.glob("*.npy") if re.fullmatch(r"\d+", path.stem)}
    for _, path in sorted(numbered.items()):
        found = _unpickled(_object_array(path), str(path))
        if not isinstance(found, list) or len(found) != 2:
            raise UserError(f"{path}: expected moments and a class")
        moments, label = found
        if isinstance(label, bool) or not isinstance(label, int) or label.bit_length() > 64:
            raise UserError(f"{path}: its class must be a whole number of 64 bits (found {type(label).__name__})")
        yield str(path), (_moments(moments, str(path)), label)


def _object_array(path: Path) -> bytes:
    """The pickle of an .npy file of objects."""
    content = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
    stream = io.BytesIO(content)
    try:
        shape, _, kind = npy.read_array_header_1_0(stream) if npy.read_magic(stream) == (1, 0) else ((), False, None)
    except (ValueError, SyntaxError, TypeError) as error:
        raise UserError(f"{path}: not a NumPy array of objects ({error})") from None
    if shape != (2,) or kind != np.dtype(object):
        raise UserError(f"{path}: not an array of moments and a class; layout u-vit stores these as two objects")
    return stream.read()


def _moments(found: object, where: str) -> NDArray[np.float32]:
    if not isinstance(found, np.ndarray) or found.ndim != 3 or found.shape[0] % 2:
        raise UserError(f"{where}: expected moments (2C, H, W), found {getattr(found, 'shape', type(found).__name__)}")
    with np.errstate(over="ignore"):
        moments = found.astype(np.float32)
    if not np.isfinite(moments).all():
        raise UserError(f"{where}: moments contain NaN or infinite values, or some that float32 does not hold")
    return moments


@dataclass(frozen=True)
class PickledLayout:
    """How a layout is read.

    Args:
        samples: folder -> where each sample is, its moments (2C, H, W) and its class.
        flips: whether its authors' script encodes mirrored images, too, unless it is told otherwise.
    """

    samples: Callable[[Path], Iterator[tuple[str, Sample]]]
    flips: Flips


READERS = {
    "maskdit-wds": PickledLayout(_maskdit_samples, "none"),
    "u-vit": PickledLayout(_uvit_samples, "appended"),
}


# ---- what is written


def convert(
    source: Path,
    layout: str,
    out: Path,
    num_classes: int,
    flips: Flips | None = None,
    progress: Callable[[int], None] = lambda count: None,
) -> LatentManifest:
    """Write the moments of a pickled layout as this project's safetensors files, with their manifest.

    Args:
        layout: one of `READERS`.
        out: a folder that does not exist, or is empty.
        num_classes: of the data set; a folder need not have samples of each.
        flips: whether mirrored images were appended, which the files do not show; None: as the layout usually is.
        progress: called with the number of samples after each file.

    Raises:
        UserError: naming file and key, where a pickle holds anything but moments and a class.
    """
    # What is asked for.
    if num_classes > MAX_NUMBER:
        raise UserError(f"--num-classes {num_classes}: must be at most {MAX_NUMBER:,}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is not empty; name a new folder")
    if not source.is_dir():
        raise UserError(f"{source}: no such folder")
    out.mkdir(parents=True, exist_ok=True)

    # Samples, in files of so many.
    values: list[NDArray[np.float32]] = []
    labels: list[int] = []
    files: dict[str, str] = {}
    shape: tuple[int, ...] = ()
    count = 0

    def write() -> None:
        path = out / f"latents-{len(files):05d}.safetensors"
        with replacing(path) as temporary:
            save_file({"moments": np.stack(values), "labels": np.array(labels, dtype=np.int64)}, temporary)
        files[path.name] = content_sha256(str(path))
        values.clear()
        labels.clear()
        progress(count)

    for where, (moments, label) in READERS[layout].samples(source):
        shape = shape or moments.shape
        if moments.shape != shape:
            raise UserError(f"{where}: moments of shape {moments.shape}: expected shape {shape}")
        if not 0 <= label < num_classes:
            raise UserError(f"{where}: class {label} where --num-classes {num_classes} allows 0 to {num_classes - 1}")
        values.append(moments)
        labels.append(label)
        count += 1
        if len(values) == _SHARD_SAMPLES:
            write()
    if values:
        write()
    if not count:
        raise UserError(f"{source}: no sample of layout {layout} in it")

    # What they are.
    manifest = LatentManifest(
        quantity="mean_logvar",
        encoder_input=(-1.0, 1.0),
        already_scaled=False,
        scale=SD_VAE_SCALE,
        flips=flips or READERS[layout].flips,
        shape=(shape[0] // 2, shape[1], shape[2]),
        count=count,
        num_classes=num_classes,
        files=files,
        encoder=f"as layout {layout} has it",
    )
    write_json(out / MANIFEST, manifest.model_dump(mode="json"))
    return manifest
