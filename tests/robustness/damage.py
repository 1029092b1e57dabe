"""Damage to documents: values of JSON that cannot be, files cut, flipped, emptied, exchanged or not files at all."""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hostile_suites import HOSTILE_TEXTS, NUMBERS, mutated
from PIL import Image

Damage = Callable[[Path, list[Path], random.Random], str]  # (document, others of its kind, chance) -> what was done

# JSON that a writer of this program never writes
_LITERALS = (
    *("NaN", "Infinity", "-Infinity", "1e999", "-1e-400", "9" * 5000, "0." + "1" * 5000, "01", "0x10", "True"),
    *('"\\ud800"', '"\\u0000"', '"\\u202e"', "[" * 5000 + "]" * 5000, '{"a":' * 3000 + "1" + "}" * 3000, "undefined"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", " ", [], {}, [[]], [{}], [None], [[], [1]], [[1], [1, 2]], {"": {}}, "done", "1", 0, -1),
    *(number for number in NUMBERS if number == number and abs(number) != float("inf")),
    *HOSTILE_TEXTS,
)
_WHOLE = (
    b"",
    b"\n",
    b"null",
    b"[]",
    b"{}",
    b'""',
    b"3",
    b"[[[[",
    b"\0" * 100,
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf{}",
    b"{",
)


def damage_json(path: Path, others: list[Path], chance: random.Random) -> str:
    """Three times in four inside the document, as somebody with an editor, a script or an older version might."""
    if chance.random() < 0.25:
        return damage_bytes(path, others, chance)
    content = json.loads(path.read_text())
    steps = chance.choice((1, 1, 1, 2, 4))
    literals: dict[str, str] = {}
    told = "; ".join(_change(content, chance, literals) for _ in range(steps))
    text = json.dumps(content, indent=1)
    for place, literal in literals.items():
        text = text.replace(f'"{place}"', literal)
    path.write_text(text)
    return told


def _change(content: Any, chance: random.Random, literals: dict[str, str]) -> str:
    """One change of a value somewhere; what it was, in words."""
    places = list(_places(content))
    if not places:
        return "nothing left to change"
    above, key, told = chance.choice(places)
    match chance.randrange(6):
        case 0:
            del above[key]
            return f"{told} deleted"
        case 1:
            literal = chance.choice(_LITERALS)
            above[key] = f"literal {len(literals)}"
            literals[above[key]] = literal
            return f"{told} = {literal[:40]}"
        case 2 if isinstance(above, list):
            above.append(above[key])
            return f"{told} doubled"
        case 2:
            above[chance.choice(("", "a", "schema_version", "__class__", "\ud800", "x" * 3000))] = above[key]
            return f"a key beside {told}"
        case 3:
            other, other_key, other_told = chance.choice(places)
            above[key] = json.loads(json.dumps(other[other_key]))
            return f"{told} = {other_told}"
        case _:
            above[key] = value = chance.choice(_VALUES)
            return f"{told} = {value!r:.60}"


def _places(content: Any, above: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Every value in a document: what holds it, its key there, and its dotted name."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in list(items):
        yield content, key, f"{above}{key}"
        yield from _places(value, f"{above}{key}.")


def damage_text(path: Path, others: list[Path], chance: random.Random) -> str:
    """YAML and other texts."""
    path.write_bytes(mutated(path.read_bytes(), [other.read_bytes() for other in others], chance))
    return "mutated"


def damage_bytes(path: Path, others: list[Path], chance: random.Random) -> str:
    """A file cut short, emptied, exchanged or with other bytes; a folder or a link in its place."""
    content = path.read_bytes()
    match chance.randrange(8):
        case 0:
            path.write_bytes(whole := chance.choice(_WHOLE))
            return f"all of it = {whole[:20]!r}"
        case 1:
            path.write_bytes(content[: (length := chance.randrange(len(content) or 1))])
            return f"cut to {length} bytes"
        case 2:
            path.write_bytes((other := chance.choice(others)).read_bytes())
            return f"exchanged for {other.parent.name}/{other.name}"
        case 3:
            path.unlink()
            path.mkdir()
            return "a folder in its place"
        case 4:
            path.unlink()
            path.symlink_to(target := chance.choice((path.name, "nowhere", "/dev/null", "/etc/hostname", "/dev/full")))
            return f"a link to {target} in its place"
        case 5:
            path.write_bytes(content.decode("latin-1").encode(chance.choice(("utf-16", "utf-8-sig", "utf-32"))))
            return "another encoding"
        case 6:
            path.write_bytes(content + chance.choice((b"\n", b"\0", b"{}", content)))
            return "appended to"
        case _:
            return _flip(path, content, chance)


def _flip(path: Path, content: bytes, chance: random.Random) -> str:
    """Bits of it, most often where file formats have their headers and footers."""
    damaged = bytearray(content or b"\n")
    ends = [*range(min(200, len(damaged))), *range(max(0, len(damaged) - 600), len(damaged))]
    flips = [chance.choice(ends) if chance.random() < 0.8 else chance.randrange(len(damaged)) for _ in range(3)]
    for place in flips:
        damaged[place] ^= 1 << chance.randrange(8)
    path.write_bytes(damaged)
    return f"bits flipped at {flips}"


# Parquet that is whole and not what is asked for


def _picture(mode: str = "L", side: int = 8, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    Image.new(mode, (side, side), 1 if mode != "P" else 0).save(file, kind, **options)
    return file.getvalue()


PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def pictures(images: list[bytes | None], labels: list[Any], label_type: Any = None) -> pa.Table:
    """A table in Hugging Face's image schema."""
    column = pa.array([None if image is None else {"bytes": image, "path": "x.png"} for image in images], PICTURE)
    return pa.table({"image": column, "label": pa.array(labels, label_type or pa.int64())})


def good_pictures(count: int = 20) -> pa.Table:
    """Gray, 8 x 8, of two classes."""
    return pictures([_picture("L", 8) for _ in range(count)], [k % 2 for k in range(count)])


@cache
def _tables() -> dict[str, pa.Table]:
    """Whole tables that are not what is asked for, by what is wrong with them."""
    good = good_pictures()
    images = [_picture() for _ in range(20)]
    labels = [k % 2 for k in range(20)]

    def beginning_with(image: bytes | None) -> pa.Table:
        return pictures([image, *images[1:]], labels)

    return {
        "labels are texts": pictures(images, [str(label) for label in labels], pa.string()),
        "labels are fractions": pictures(images, [label + 0.5 for label in labels], pa.float64()),
        "a label is missing": pictures(images, [None, *labels[1:]]),
        "a label is too large": pictures(images, [2**62, *labels[1:]]),
        "a label is negative": pictures(images, [-1, *labels[1:]]),
        "labels are lists": pictures(images, [[label] for label in labels], pa.list_(pa.int64())),
        "an image is missing": beginning_with(None),
        "an image is empty": beginning_with(b""),
        "images are texts": good.set_column(0, "image", pa.array(["x"] * 20)),
        "images are numbers": good.set_column(0, "image", pa.array(range(20))),
        "images have no bytes": good.set_column(0, "image", pa.array([{"path": "x"}] * 20)),
        "two columns of one name": pa.Table.from_arrays(
            [*good.columns, good.column(1)], names=["image", "label", "label"]
        ),
        "no columns": good.select([]),
        "no rows": good.slice(0, 0),
        "one row": good.slice(0, 1),
        "a TIFF of floats": beginning_with(_picture("F", 8, "TIFF")),
        "a TIFF of 16 bits": beginning_with(_picture("I;16", 8, "TIFF")),
        "a TIFF that is cut": beginning_with(_picture("L", 8, "TIFF", compression="tiff_lzw")[:-20]),
        "an image of another size": beginning_with(_picture("L", 9)),
        "an image with alpha": beginning_with(_picture("LA")),
        "an image with a palette": beginning_with(_picture("P")),
        "an image of four colours": beginning_with(_picture("CMYK", 8, "TIFF")),
    }


def damage_parquet(path: Path, others: list[Path], chance: random.Random) -> str:
    """One time in two damaged bytes, else a whole file that is not what was asked for."""
    if chance.random() < 0.5:
        return damage_bytes(path, others, chance)
    name = chance.choice([*_tables()])
    pq.write_table(_tables()[name], path)
    return name


def link_to_mine(path: Path, others: list[Path], chance: random.Random) -> str:
    """A link to somebody's own folder where this program has one, or beside it."""
    folders = ("", "cells", "cells/dense-s0-0", "cells/dense-s0-0/checkpoints")
    target = (others[0] / (path.name if path.suffix == ".html" else chance.choice(folders))).resolve()
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return f"a link to {target.name or target} in its place"
