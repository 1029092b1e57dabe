"""Reading a document in one pass finds what reading it closely finds, whatever is in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from pydantic import JsonValue

from tread_bench.core.documents import Document, parsed, parsed_at_once


class Anything(Document):
    """A document whose parts are not looked at, so that only its values can be unfit."""

    any: JsonValue
    free: dict[str, Any]


TEXTS = some.text(some.sampled_from('ab 0e]["{},:\\\n\ud800é'), max_size=6)
NUMBERS = (
    some.integers(-(2**70), 2**70)
    | some.floats()
    | some.sampled_from([2**63 - 1, 2**63, -(2**63), 10**17, 1e99, 1e100, 1e-300])
)
VALUES = some.recursive(
    some.none() | some.booleans() | NUMBERS | TEXTS,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def nested(levels: int) -> object:
    value: object = 1
    for level in range(levels):
        value = [value] if level % 3 else {"[": value}
    return value


@given(VALUES, some.booleans(), some.sampled_from([None, 1]))
@example(nested(48), True, None)
@example(nested(49), True, None)
@example(nested(60), True, 1)
@example(["[" * 60, "\\", '"', "]"], True, None)
def test_one_pass_accepts_nothing_that_a_close_look_refuses(value: object, is_ascii: bool, indent: int | None) -> None:
    content = {"any": value, "free": {"some": value}}
    text = json.dumps(content, ensure_ascii=is_ascii, indent=indent).encode(errors="surrogatepass")
    at_once, closely = parsed_at_once(text, Anything), parsed(json.loads(text), Anything)
    assert at_once is None or repr(at_once) == repr(closely)


@pytest.mark.parametrize(
    "text",
    [
        '"NaN -Infinity 12345678901234567890 1e400 [[[ \\" ]"',
        "0.0001234567890123456789",
        "[1e-300, -1E+99, 123456789012345678]",
        '{"5e123": "\\u00e9\\ud83d\\ude00", "a\\\\": [[]]}',
    ],
)
def test_what_is_sound_is_read_in_one_pass(text: str) -> None:
    content = f'{{"any": {text}, "free": {{}}}}'
    assert repr(parsed_at_once(content.encode(), Anything)) == repr(parsed(json.loads(content), Anything))


@pytest.mark.parametrize(
    "text", ["NaN", "-Infinity", "1e400", "1E+400", "9223372036854775808", '"\\ud800"', "[1,]", ""]
)
def test_what_is_unfit_is_left_to_a_close_look(text: str) -> None:
    assert parsed_at_once(f'{{"any": {text}, "free": {{}}}}'.encode(), Anything) is None
