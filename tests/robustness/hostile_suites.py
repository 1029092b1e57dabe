"""What fuzzed suite files are made of: hostile values at known and unknown keys, pieces of YAML, and damage."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from tread_bench.core.config.suite import Cell, Suite
from tread_bench.core.describe.families import families
from tread_bench.core.problems import models_in

GOOD: dict[str, Any] = {
    "name": "study",
    "base": {
        "backbone": {"name": "DiT", "depth": 12, "hidden": 64, "heads": 4, "patch": 2},
        "training": {"iterations": 100},
    },
    "rows": {"dense": {}, "tread": {"method": "tread", "routes": "2:8@0.5"}},
}
HOSTILE_TEXTS = (
    *("../../x", "/etc/passwd", "a/../../../b", "..", ".", "-", "con", "%n%s", "{0}", "[/bold]", "~", "=1+1", ""),
    *("<script>alert(1)</script>", "'; DROP TABLE cells; --", "$(touch x)", "`id`", "\x1b[31m", "a\0b", "a\nb", "\t"),
    *("\N{RIGHT-TO-LEFT OVERRIDE}gnp", "\N{ZERO WIDTH SPACE}", "\ufeff", "\ud800", "\u2028", "é" * 300, "😀", "٣"),
    *("NaN", ".inf", "1e999", "0x10", "1_000", "on", "null", "2:8@0.5", "8:2@0.5", "2:8@1", "1:2@" + "1" * 9000 + "x"),
    *(
        "9" * 5000 + ":2@0.5",
        "1/0:2@0.5",
        "0.1/3:1@.5",
        "a" * 5000,
        "DiT",
        "DRWKV",
        "DiT-XL/2",
        "tread",
        "cfg",
        "parquet",
    ),
)
NUMBERS = (0, -1, 1, 2**31, 2**63, 10**9, 10**12, 10**30, 10**300, -(10**30), 1e-320, 1e308, -0.0, 0.5, float("inf"))


def _field_names(model: type[BaseModel], above: str = "") -> list[str]:
    """The keys of a model and of the models in it, dotted."""
    names = []
    for name, field in model.model_fields.items():
        names.append(above + name)
        names += [key for inner in models_in(field.annotation) for key in _field_names(inner, f"{above}{name}.")]
    return names


_SIZES = [f"backbone.{name}" for family in families().values() for name in family.spec.model_fields]
KEYS = [*_field_names(Suite), *_field_names(Cell), *_SIZES, "include", "exclude", "a", "training.a.b", "...", "<<"]

texts = st.sampled_from(HOSTILE_TEXTS) | st.text(max_size=12)
scalars = st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.integers() | st.floats() | texts
HOSTILE_VALUES = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | texts, inner, max_size=4),
    max_leaves=12,
)
PLAUSIBLE = (
    *(
        ("seeds", 3),
        ("training.batch", 8),
        ("training", {"warmup": 2}),
        ("metrics.at", [50, 100]),
        ("selector", "rows"),
    ),
    *(
        ("backbone.depth", 9),
        ("backbone.patch", 4),
        ("backbone", "DiT-S/2"),
        ("backbone", {"name": "ZigMa", "patch": 1}),
    ),
    *(("method", "tread"), ("routes", "1/6:-1@.25"), ("routes", []), ("sampling", {"guidance": "cfg"}), ("timing", {})),
)
_anything = st.tuples(st.sampled_from(KEYS) | texts, HOSTILE_VALUES)
_edits = st.lists(st.sampled_from(PLAUSIBLE) | _anything, min_size=1, max_size=4)
_places = st.sampled_from(["suite", "base", "rows", "row", "matrix", "axis", "overrides", "include", "exclude"])


def _edited(edits: list[tuple[str, Any]], places: list[str]) -> dict[str, Any]:
    """A good suite with values written over it or beside what it has."""
    suite = {key: dict(value) if isinstance(value, dict) else value for key, value in GOOD.items()}
    for (key, value), place in zip(edits, places, strict=False):
        match place:
            case "suite":
                suite[key] = value
            case "base" | "overrides" | "rows" | "matrix":
                suite[place] = {**_mapping(suite, place), key: value}
            case "row":
                suite["rows"] = {**_mapping(suite, "rows"), "one": {key: value}}
            case "axis":
                suite["matrix"] = {**_mapping(suite, "matrix"), key: [value, value, 3]}
            case "include" | "exclude":
                suite["matrix"] = {**_mapping(suite, "matrix"), place: [{key: value}]}
    return suite


def _mapping(suite: dict[str, Any], key: str) -> dict[str, Any]:
    return suite[key] if isinstance(suite.get(key), dict) else {}


DOCUMENTS = st.builds(_edited, _edits, st.lists(_places, min_size=4, max_size=4))

_PIECES = (
    *("name: x\n", "base:\n", "rows: ", "matrix:\n", "seeds: 1e9\n", "seeds: 1000000000\n", "training.batch: ", "a: "),
    *(
        "  ",
        "    ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "- ",
        "? ",
        ": ",
        ", ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "*b",
        "<<: *a\n",
    ),
    *("!!python/object/apply:os.system ", "!!binary ", "!<tag:yaml.org,2002:set> ", "!%1b ", "! ", "!!int ", "!!bool "),
    *("|\n", ">-\n", "'", '"', '"\\x41"', '"\\e"', '"\\ud800"', '"\\UFFFFFFFF"', "#", "%YAML 9.9\n", "%TAG ! x\n"),
    *("---\n", "...\n", "\ufeff", "\0", "\x07", "\x85", "\u2028", "é", "😀", "1e999", "0x10", "~", "[" * 40, "- " * 40),
    *("a." * 40, "{a: " * 40, "9" * 400, "x" * 2000, "[x, x, x]", "&b [*a, *a, *a, *a]\n", "{name: DiT}", "2:8@0.5"),
)
FRAGMENTS = (
    st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.lists(st.sampled_from(_PIECES), max_size=30).map("".join).map(lambda text: text.encode("utf-8"))
    | st.lists(st.sampled_from(_PIECES), max_size=12).map("".join).map(lambda t: f"name: x\nbase:\n  {t}".encode())
)

_BYTES = (
    b"",
    b" ",
    b"\n",
    b":",
    b"-",
    b"[",
    b"{",
    b"}",
    b"&a ",
    b"*a",
    b"!x ",
    b'"',
    b"#",
    b"\0",
    b"\xff",
    b"1e999",
    b"9",
)
_VALUES = tuple(text.encode("utf-8", "surrogatepass") for text in HOSTILE_TEXTS) + tuple(
    str(n).encode() for n in NUMBERS
)


def mutated(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """One to six kinds of damage, one after another."""
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        damage = chance.choice((_flip, _splice, _lines, _value, _indent, _graft))
        content = damage(content, others, chance) or b"\n"
    return content


def _flip(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    damaged = bytearray(content)
    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def _splice(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    start = chance.randrange(len(content))
    return content[:start] + chance.choice(_BYTES) + content[start + chance.randint(0, 12) :]


def _lines(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A line deleted, doubled, or swapped with another."""
    lines = content.splitlines(keepends=True)
    here, there = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(3):
        case 0:
            del lines[here]
        case 1:
            lines.insert(there, lines[here])
        case 2:
            lines[here], lines[there] = lines[there], lines[here]
    return b"".join(lines)


def _value(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """What follows a colon gives way to something else."""
    colons = [i for i, byte in enumerate(content) if byte == ord(":")]
    if not colons:
        return content
    start = chance.choice(colons) + 1
    end = min((content.find(stop, start) % (len(content) + 1) for stop in (b"\n", b",", b"}")), default=start)
    return content[:start] + b" " + chance.choice(_VALUES) + content[end:]


def _indent(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    here = chance.randrange(len(lines))
    lines[here] = b" " * chance.randint(0, 8) + lines[here].lstrip(b" ")
    return b"".join(lines)


def _graft(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A piece of another suite."""
    other = chance.choice(others)
    start, here = chance.randrange(len(other)), chance.randrange(len(content))
    return content[:here] + other[start : start + chance.randint(1, 300)] + content[here:]
