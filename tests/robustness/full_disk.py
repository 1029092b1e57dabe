"""A disk that fails once: the n-th operation that writes below a folder raises, half of a write's bytes being there."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock


class Disk:
    """Counts the operations that write below `root`; the one with number `fails_at` (from 1) raises `error`."""

    def __init__(self, root: Path, fails_at: int = 0, error: int = errno.ENOSPC) -> None:
        self.root, self.fails_at, self.error = str(root), fails_at, error
        self.done: list[str] = []

    def step(self, what: str, path: object) -> bool:
        """Count an operation; whether it is to fail."""
        if not str(path).startswith(self.root):
            return False
        self.done.append(f"{what} {str(path).removeprefix(self.root)}")
        return len(self.done) == self.fails_at

    def refuse(self, path: object = None) -> OSError:
        return OSError(self.error, os.strerror(self.error), path)


def _path_of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


class _File(io.FileIO):
    disk: Disk

    def write(self, data: Any) -> int:
        if self.disk.step("write", _path_of(self.fileno())):
            super().write(bytes(data)[: len(data) // 2])
            raise self.disk.refuse()
        return super().write(data)


@contextmanager
def failing(disk: Disk) -> Iterator[Disk]:
    """This process writes to that disk."""
    real_open = io.open

    def open_(file: Any, mode: str = "r", buffering: int = -1, *text: Any, **options: Any) -> Any:
        path = _path_of(file) if isinstance(file, int) else os.path.abspath(os.fspath(file))
        if not set(mode) & set("wax+") or not path.startswith(disk.root):
            return real_open(file, mode, buffering, *text, **options)
        opener = options.pop("opener", None)  # calls os.open, which counts
        if not isinstance(file, int) and opener is None and disk.step("open", path):
            raise disk.refuse(path)
        raw = _File(file, mode.replace("b", "").replace("t", ""), opener=opener)
        raw.disk = disk
        binary = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return binary if "b" in mode else io.TextIOWrapper(binary, *text, **options)

    def guarded(name: str, writes: Callable[..., bool] = lambda *arguments: True) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(target: Any, *arguments: Any, **options: Any) -> Any:
            path = _path_of(target) if isinstance(target, int) else os.path.abspath(os.fspath(target))
            if writes(*arguments) and disk.step(name, path):
                raise disk.refuse(path)
            return real(target, *arguments, **options)

        return call

    creates = guarded("open", lambda flags, *mode: bool(flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)))
    calls = {name: guarded(name) for name in ("write", "fsync", "replace", "rename", "mkdir", "chmod", "unlink")}
    in_os = mock.patch.multiple(os, open=creates, **calls)
    with in_os, mock.patch.object(io, "open", open_), mock.patch.object(builtins, "open", open_):
        yield disk
