"""What is said of a file that cannot be read talks nobody into losing it."""

from __future__ import annotations

import os

import pytest

from tread_bench.core.stored import files
from tread_bench.core.stored.files import StoreError, read_json
from tread_bench.runner.folder import RunFolder


@pytest.mark.parametrize(("number", "reason"), [(13, "Permission denied"), (5, "Input/output error")])
def test_a_file_that_the_system_does_not_hand_out_is_not_called_damaged(tmp_path, monkeypatch, number, reason):
    def refuse(path, *arguments, **options):
        raise OSError(number, os.strerror(number), str(path))

    (tmp_path / "cells" / "a").mkdir(parents=True)
    (tmp_path / "cells" / "a" / "record.json").write_text("{}")
    monkeypatch.setattr(files, "read_file", refuse)
    with pytest.raises(StoreError, match=rf"record.json cannot be read \({reason}\); make it readable$"):
        RunFolder(tmp_path).record("a")


def test_a_damaged_file_is_told_with_its_damage_and_kept(tmp_path):
    (tmp_path / "record.json").write_text('{"a": ')
    with pytest.raises(StoreError, match=r"record.json cannot be read as JSON \(.*column 6\); restore it, or move"):
        read_json(tmp_path / "record.json")
    assert (tmp_path / "record.json").exists()
