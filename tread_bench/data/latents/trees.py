"""Folders, or zip archives, of many small files, by their names relative to it."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import entries_below, is_data


class Folder:
    """Files of a folder and below."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._base = os.path.join(path, "")

    def names(self, suffix: str) -> list[str]:
        """Return names that end with the suffix, sorted as texts, with `/` between their parts. Raises UserError."""
        with self._reported(""):
            found = [entry.path for entry in entries_below(self._base) if entry.name.endswith(suffix)]
        return sorted(path.removeprefix(self._base).replace(os.sep, "/") for path in found)

    def where(self, name: str) -> str:
        """Folder and name, for messages."""
        return f"{self._base}{name}"

    def read(self, name: str, most_bytes: int) -> bytes:
        """Return the content of a file. Raises UserError where there is none, or it is larger."""
        with self._reported(name), open(self._base + name, "rb") as file:
            if os.fstat(file.fileno()).st_size <= most_bytes:
                return file.read()
        raise _too_large(self.where(name), most_bytes)

    @contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            kind = "file" if name else "folder"
            raise UserError(f"{self.where(name)}: no such {kind} (looked in {Path.cwd()})") from None
        except OSError as error:
            raise UserError(f"{self.where(name)}: cannot be read ({error.strerror})") from None


class Archive:
    """Files of a zip archive that stores them as they are, by the same methods as a folder's."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise UserError(f"{path}: no such file (looked in {Path.cwd()})") from None
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise UserError(f"{path}: not a readable zip archive ({error})") from None
        packed = next((about for about in self._file.infolist() if about.compress_type != zipfile.ZIP_STORED), None)
        if packed is not None:
            raise UserError(f"{path}: {packed.filename} is compressed; write the archive without compression (zip -0)")

    def names(self, suffix: str) -> list[str]:
        return sorted(name for name in self._file.namelist() if name.endswith(suffix) and is_data(name))

    def where(self, name: str) -> str:
        return f"{self.path}: {name}"

    def read(self, name: str, most_bytes: int) -> bytes:
        try:
            about = self._file.getinfo(name)
            if about.file_size <= most_bytes:
                return self._file.read(about)
        except KeyError:
            raise UserError(f"{self.path}: no {name}") from None
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
            raise UserError(f"{self.where(name)} cannot be read ({error}); copy the archive again") from None
        raise _too_large(self.where(name), most_bytes)


Tree = Folder | Archive


def open_tree(path: str) -> Tree:
    """Open a folder, or a zip archive if the name says so. Raises UserError."""
    return Archive(path) if path.endswith(".zip") else Folder(path)


def _too_large(where: str, most_bytes: int) -> UserError:
    return UserError(f"{where}: more than {most_bytes:,} bytes, the most that a file of this kind can have")
