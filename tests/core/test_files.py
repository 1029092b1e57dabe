from __future__ import annotations

import errno
import os
from contextlib import suppress
from unittest.mock import DEFAULT, Mock

import pytest

from tread_bench.core.stored.files import StoreError, read_json, temporaries, write_atomically


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/zero"), os.mkfifo, os.mkdir])
def test_what_may_have_no_end_is_not_read(make, tmp_path):
    path = tmp_path / "record.json"
    make(path)
    with pytest.raises(StoreError, match=r"record\.json cannot be read \(it is not a file\); restore it"):
        read_json(path)
    assert read_json(tmp_path / "nowhere.json") is None


@pytest.mark.parametrize("without_links", [False, True])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("call", ["open", "fsync", "chmod", "link", "unlink", "replace"])
def test_a_failure_of_any_call_leaves_the_old_file_or_the_new_one(
    call, overwrite, without_links, tmp_path, monkeypatch
):
    path, injected = tmp_path / "out.json", OSError(errno.EIO, "injected")
    before = b"old" if overwrite else None
    if overwrite:
        path.write_bytes(b"old")
    for count in range(4):
        with monkeypatch.context() as patched:
            if without_links:
                patched.setattr(os, "link", Mock(side_effect=injected))
            ends = [*[DEFAULT] * count, injected, *[DEFAULT] * 9]  # of the calls; DEFAULT: as it does
            patched.setattr(os, call, Mock(wraps=getattr(os, call), side_effect=ends))
            with suppress(OSError):
                write_atomically(path, b"new", overwrite)
        content = path.read_bytes() if path.exists() else None
        assert content in (before, b"new")
        if content == b"new":
            path.write_bytes(before) if before else path.unlink()
        assert call == "unlink" or temporaries(tmp_path) == []
    write_atomically(path, b"new", overwrite)


def test_two_that_write_a_new_file_do_not_replace_each_other_s(tmp_path, monkeypatch):
    path, link = tmp_path / "out.json", os.link

    def link_late(*arguments: object) -> None:
        path.write_bytes(b"of another process")
        link(*arguments)

    monkeypatch.setattr(os, "link", link_late)
    with pytest.raises(FileExistsError):
        write_atomically(path, b"new", overwrite=False)
    assert path.read_bytes() == b"of another process" and temporaries(tmp_path) == []


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_new_file_has_the_mode_that_the_umask_leaves(umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        for overwrite in (False, True):
            write_atomically(tmp_path / f"{overwrite}", b"new", overwrite)
            assert (tmp_path / f"{overwrite}").stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_file_that_is_replaced_keeps_its_mode_and_is_never_more_readable(mode, tmp_path, monkeypatch):
    path, seen, fsync = tmp_path / "out.json", [], os.fsync
    path.write_bytes(b"old")
    path.chmod(mode)

    def look(handle: int) -> None:
        seen.extend(temporary.stat().st_mode & 0o777 for temporary in temporaries(tmp_path))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", look)
    write_atomically(path, b"new")
    assert path.stat().st_mode & 0o777 == mode and seen == [0o600]
