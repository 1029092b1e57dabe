"""Data files that cannot be used are all named before anything is trained, wherever that can be seen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import tread_bench
from tests.data.test_parquet import COLOUR, SIDE, png, write
from tread_bench.core.stored import data_files
from tread_bench.data.check import absent_classes, data_problems, messages_of
from tread_bench.data.images import encoded
from tread_bench.data.parquet.family import ParquetData

SUITE = """\
name: damaged
base:
  backbone: {{name: DiT, depth: 1, hidden: 8, heads: 1, patch: 2}}
  data: {{name: parquet, train: [{train}], held_out: [{held_out}], image_size: 4, num_classes: 3}}
  training: {{iterations: 1, batch: 2}}
  metrics: {{generate: false, validation_samples: 1, similarity_samples: 1}}
rows: {{dense: {{}}}}
"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    return write(tmp_path / "good.parquet", [png(image) for image in COLOUR], [0, 1, 2, 0, 1])


def images(*train: str, held_out: str) -> ParquetData:
    return ParquetData(name="parquet", train=train, held_out=(held_out,), image_size=SIDE, num_classes=3)


def test_files_without_a_mistake_are_read_again_only_when_one_changes(good: str, monkeypatch: pytest.MonkeyPatch):
    read = []
    monkeypatch.setattr(encoded, "file_problems", lambda options, generates: read.append(found := []) or found)
    choice = [(images(good, held_out=good), True)]
    assert data_problems(choice) == data_problems(choice) == [] and len(read) == 2  # just written: may change again
    monkeypatch.setattr(data_files, "SETTLED_S", -1.0)
    for times in (3, 4):
        os.utime(good)
        assert data_problems(choice) == data_problems(choice) == [] and len(read) == times
    monkeypatch.setattr(encoded, "file_problems", lambda options, generates: read.append(found := ["bad"]) or found)
    os.utime(good)
    assert data_problems(choice) == data_problems(choice) == ["bad"] and len(read) == 6


installed = True


def package_problems() -> list[str]:
    return [] if installed else ["not installed"]


def test_a_check_that_reads_no_files_looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else it depends on, such as an installed package, is not part of the cache's key."""
    check = f"{__name__}:package_problems"
    assert messages_of(check, (), []) == []
    monkeypatch.setattr(sys.modules[__name__], "installed", False)
    assert messages_of(check, (), []) == ["not installed"]


def test_classes_that_do_not_occur_are_named():
    assert list(absent_classes(np.array([0, 1, 2, 1]), 3)) == list(absent_classes(np.zeros(4, np.int64), 0)) == []
    (message,) = absent_classes(np.array([0, 2, 9]), 10)
    assert message.startswith("data.num_classes 10: no training sample has classes 1, 3, 4 and 4 more, and images")
    assert "has class 1, and" in next(absent_classes(np.array([0, 2]), 3))


def test_a_run_ends_before_its_first_cell_and_leaves_nothing(good: str, tmp_path: Path) -> None:
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(Path(good).read_bytes()[:-20])
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE.format(train=f"{good}, {cut}", held_out=good))
    done = tread_bench("run", suite, "--out", tmp_path / "run")
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"{cut}: not a readable Parquet file" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
