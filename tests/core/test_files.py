from __future__ import annotations

import os

import pytest

from tread_bench.core.stored.files import StoreError, read_json


def test_a_document_may_stand_behind_a_link(tmp_path):
    (tmp_path / "there.json").write_text('{"a": 1}')
    (tmp_path / "link.json").symlink_to("there.json")
    assert read_json(tmp_path / "link.json") == {"a": 1}
    assert read_json(tmp_path / "nowhere.json") is None


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/zero"), os.mkfifo, os.mkdir])
def test_what_may_have_no_end_is_not_read(make, tmp_path):
    path = tmp_path / "record.json"
    make(path)
    with pytest.raises(StoreError, match=r"record\.json cannot be read \(it is not a file\); restore it"):
        read_json(path)


def test_a_text_in_another_encoding_is_not_guessed(tmp_path):
    path = tmp_path / "record.json"
    path.write_text("{}", encoding="utf-16")
    with pytest.raises(StoreError, match=r"record\.json cannot be read as JSON"):
        read_json(path)
