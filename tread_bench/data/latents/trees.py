"""Folders, or zip archives, of many small files, by their names relative to it."""

from __future__ import annotations

import os
from zipfile import ZipFile

from tread_bench.core.errors import UserError
from tread_bench.core.stored.data_paths import entries_below, is_data, named_where_unreadable
from tread_bench.core.stored.foreign import open_archive, read_file, read_member
from tread_bench.data.image_folder.listing import INDEX

ARCHIVE = ".zip"
_MOST_BYTES = 2**44  # of an archive


class Folder:
    """Files of a folder and below."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._base = os.path.join(path, "")

    def names(self, suffix: str) -> list[str]:
        """Return names that end with the suffix, sorted as texts, with `/` between their parts. Raises UserError."""
        with named_where_unreadable(self.path):
            found = [entry.path for entry in entries_below(self._base) if entry.name.endswith(suffix)]
        return sorted(path.removeprefix(self._base).replace(os.sep, "/") for path in found)

    def where(self, name: str) -> str:
        """Folder and name, for messages."""
        return f"{self._base}{name}"

    def read(self, name: str, most_bytes: int) -> bytes:
        """Return the content of a file. Raises UserError where there is none, or it is larger."""
        with named_where_unreadable(self.where(name)):
            return read_file(self._base + name, most_bytes)


class Archive:
    """Files of a zip archive, by the same methods as a folder's."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._by_process: dict[int, ZipFile] = {}  # a forked one would share the place up to which its parent has read

        # Packed again with the folder that it was unpacked into, all is below that folder: where its labels are.
        self._names = [name for name in self._file.namelist() if is_data(name)]
        roots = [name.removesuffix(INDEX) for name in self._names if name.rpartition("/")[2] == INDEX]
        self._root = roots[0] if len(roots) == 1 else ""

    @property
    def _file(self) -> ZipFile:
        if os.getpid() not in self._by_process:
            with named_where_unreadable(self.path):
                try:
                    self._by_process[os.getpid()] = open_archive(self.path, _MOST_BYTES)
                except ValueError as error:
                    raise UserError(f"{self.path}: not a readable zip archive: {error}") from None
        return self._by_process[os.getpid()]

    def names(self, suffix: str) -> list[str]:
        found = (name for name in self._names if name.endswith(suffix) and name.startswith(self._root))
        return sorted(name.removeprefix(self._root) for name in found)

    def where(self, name: str) -> str:
        return f"{self.path}: {self._root}{name}"

    def read(self, name: str, most_bytes: int) -> bytes:
        try:
            return read_member(self._file, self._root + name, most_bytes)
        except KeyError:
            raise UserError(f"{self.path}: no {name}; name an archive that has it") from None
        except ValueError as error:
            raise UserError(f"{self.where(name)} cannot be read ({error}); copy the archive again") from None


Tree = Folder | Archive


def open_tree(path: str) -> Tree:
    """Open a folder, or a zip archive if the name says so. Raises UserError."""
    return Archive(path) if path.endswith(ARCHIVE) else Folder(path)
