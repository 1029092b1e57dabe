"""Files, folders and globs of a suite become files in one order, and what matches nothing stays to be reported."""

from __future__ import annotations

import pytest

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import expanded

SUFFIXES = (".parquet", ".pq")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Files in folders; the working directory is above them."""
    for name in ("b.parquet", "a.parquet", "notes.txt", ".hidden.parquet", "deep/c.PQ", "deep/er/d.parquet", "x[1].pq"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("entries", "files"),
    [
        (["b.parquet", "a.parquet"], ["b.parquet", "a.parquet"]),
        (["notes.txt"], ["notes.txt"]),  # a file is taken whatever it is called
        (["deep"], ["deep/c.PQ", "deep/er/d.parquet"]),
        (["."], ["./a.parquet", "./b.parquet", "./deep/c.PQ", "./deep/er/d.parquet", "./x[1].pq"]),
        (["*.parquet"], ["a.parquet", "b.parquet"]),
        (["**/*.parquet"], ["a.parquet", "b.parquet", "deep/er/d.parquet"]),
        (["d??p"], ["deep/c.PQ", "deep/er/d.parquet"]),
        (["x[1].pq"], ["x[1].pq"]),  # exists under this name
        (["b.parquet", "*.parquet"], ["b.parquet", "a.parquet"]),  # each once
        (["gone.parquet", "gone*", "deep/er/*.pq"], ["gone.parquet", "gone*", "deep/er/*.pq"]),
        ([], []),
    ],
)
def test_entries_become_files(here, entries, files):
    assert expanded(entries, SUFFIXES) == files


def test_a_folder_without_such_files_becomes_the_pattern_of_their_names(here):
    assert expanded(["deep/er"], (".tar",)) == ["deep/er/*.tar"]
    assert expanded(["deep/er"], (".tar", ".zip")) == ["deep/er/*{.tar,.zip}"]


def test_linked_folders_are_followed_and_a_link_that_leads_back_is_named(here):
    (here / "link").symlink_to(here / "deep")
    assert expanded(["link"], SUFFIXES) == ["link/c.PQ", "link/er/d.parquet"]
    (here / "deep" / "back").symlink_to(here)
    with pytest.raises(UserError, match=r"deep/back/deep cannot be read \(a link to a folder that contains it\)"):
        expanded(["deep"], SUFFIXES)
