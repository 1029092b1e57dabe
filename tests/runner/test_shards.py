"""Parts of a run: what every runner works out alone must fit together."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.command_line import command, tread_bench
from tests.toy_suite import results
from tread_bench.core.errors import UserError
from tread_bench.core.stored.files import StoreError
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.options import Shard
from tread_bench.suite.load import find_suite, load_plan

GUIDANCE = load_plan(find_suite("guidance"), [])


@given(of=st.integers(1, 30), dear=st.integers(0, 40))
def test_parts_are_the_whole_each_cell_once_and_none_is_more_than_a_group_dearer(of, dear):
    macs = {
        key: 1 + (dear if k % 7 == 0 else 0) for k, key in enumerate(dict.fromkeys(c.row_key for c in GUIDANCE.cells))
    }
    parts = [Shard(k, of).of_cells(GUIDANCE.cells, macs) for k in range(1, of + 1)]
    assert sorted(cell.id for part in parts for cell in part) == sorted(cell.id for cell in GUIDANCE.cells)
    place = {cell.id: k for k, part in enumerate(parts) for cell in part}
    assert all(place[source.cell] == place[cell.id] for cell in GUIDANCE.cells for source in cell.sources.values())
    loads = [sum(macs[cell.row_key] for cell in part) for part in parts]
    largest_group = sum(macs[cell.row_key] for cell in GUIDANCE.cells) // len(GUIDANCE.suite.seeds)
    assert max(loads) - min(loads) <= largest_group


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/", "/2", "a/b", "-1/2", "1/2/3", "1.5/2", "²/3"])
def test_a_part_that_is_none_is_refused_with_an_example(text):
    with pytest.raises(UserError, match="such as 2/4"):
        Shard.parse(text)


@pytest.mark.full
def test_shards_beside_each_other_and_a_last_run_are_what_one_run_is(tmp_path):
    """Bit for bit."""
    brief = ("training.iterations=4", "training.checkpoint_every=2", "metrics.at=[2, 4]", "metrics.num_samples=32",
             "metrics.kid_subset_size=16", "timing.pairs=2")  # fmt: skip
    asked = [part for setting in brief for part in ("--set", setting)]

    def run(out: Path, *more: str) -> list[object]:
        return ["run", "smoke", "--out", out, "--workers", 1, *asked, *more]

    begun = [command(*run(tmp_path / "parts", "--shard", f"{k}/2")) for k in (1, 2)]
    shards = [subprocess.Popen(shard, text=True, stdout=-1, stderr=-1) for shard in begun]
    told = [shard.communicate(timeout=200) for shard in shards]
    assert [shard.returncode for shard in shards] == [0, 0], told
    trained = [json.loads(path.read_text()) for path in (tmp_path / "parts").glob("cells/*/record.json")]
    assert all((record["status"], record["timing"]) == ("done", None) for record in trained)  # speed is missing
    again = tread_bench(*run(tmp_path / "parts", "--shard", "1/2"))
    assert again.stdout.startswith("shard 1/2: 0 cells finished this time")
    for out in ("parts", "whole"):
        assert tread_bench(*run(tmp_path / out)).returncode == 0
    assert results(tmp_path / "parts") == results(tmp_path / "whole") and len(trained) == 4


def test_two_runners_of_one_part_and_one_of_the_whole_beside_a_part_are_refused(tmp_path):
    folder = RunFolder(tmp_path)
    with folder.lock("1/2"), folder.lock("2/2"):
        with pytest.raises(StoreError, match="--shard 1/2"), folder.lock("1/2"):
            pass
        with pytest.raises(StoreError, match="in use"), folder.lock():
            pass
    with folder.lock(), pytest.raises(StoreError, match="in use"), folder.lock("1/2"):
        pass
