"""Damaged suite files: a plan, or mistakes with their places."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tread_bench.core.problems import SuiteError
from tread_bench.suite.load import load_plan, shipped_suites

FILES = 150
PIECES = (
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
    b"-1",
)
ANY = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))


def damaged(content: bytes, chance: random.Random) -> bytes:
    """A bit flipped, bytes replaced, a line taken out or in another place."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        place = chance.randrange(len(content))
        lines = content.splitlines(keepends=True)
        match chance.randrange(4):
            case 0:
                content = content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]
            case 1:
                content = content[:place] + chance.choice(PIECES) + content[place + chance.randint(0, 12) :]
            case 2:
                del lines[chance.randrange(len(lines))]
                content = b"".join(lines)
            case _:
                lines.insert(chance.randrange(len(lines)), chance.choice(lines))
                content = b"".join(lines)
        content = content or b"\n"
    return content


@pytest.mark.full
def test_damaged_shipped_suites_give_a_plan_or_located_mistakes(tmp_path: Path) -> None:
    suites = [path.read_bytes() for path in shipped_suites().values()]
    path, ends = tmp_path / "suite.yaml", {"planned": 0, "refused": 0}

    @settings(ANY, max_examples=FILES)
    @given(seed=st.integers(0, 2**64))
    def check(seed: int) -> None:
        chance = random.Random(seed)
        path.write_bytes(damaged(chance.choice(suites), chance))
        try:
            load_plan(path)
            ends["planned"] += 1
        except SuiteError as error:
            ends["refused"] += 1
            lines = len(path.read_bytes().decode("utf-8-sig", "replace").splitlines()) + 1
            for problem in error.problems:
                place = problem.place
                assert place is not None and place.source == str(path)
                assert 1 <= place.line <= lines and place.column >= 1 and problem.message

    check()
    assert ends["planned"] and ends["refused"]
