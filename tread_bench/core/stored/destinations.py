"""Where a command may write: a new file, a folder of its own, and in a run folder nothing but the run's own files."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tread_bench.core.errors import printable, shortened_middle
from tread_bench.core.stored.files import (
    OutputError,
    refuse_existing,
    refuse_irregular,
    refuse_linked,
    write_atomically,
)
from tread_bench.core.stored.foreign import read_file

MARKER = "tread-bench.txt"  # in a folder of output; not hidden, so that whoever empties the folder removes it, too


def is_run(folder: Path) -> bool:
    """Return whether a folder is that of a run: it holds a plan or a cell that this program wrote."""
    for path in (folder / "plan.json", *folder.glob("cells/*/cell.json")):
        try:
            content = json.loads(read_file(path))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(content, dict) and "suite" in content:
            return True
    return False


def refuse_in_run(option: str, path: Path) -> None:
    """Raise OutputError if `path` is a run folder or inside one, also behind links."""
    real = Path(os.path.realpath(path))
    for place in (real, *real.parents):
        if is_run(place):
            rule = "which only the run itself writes to; give another path"
            raise OutputError(f"{option} {path} is in the run folder {place}, {rule}")


def claim_file(option: str, path: Path, overwrite: bool) -> None:
    """Raise OutputError if a file must not or cannot be written at `path`; call it before any work.

    Args:
        overwrite: whether a file that is there may be replaced.
    """
    refuse_in_run(option, path.parent)
    if overwrite:
        refuse_irregular(path, option)
    else:
        refuse_existing(path, option)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OutputError(f"{option} {path} cannot be written ({error.strerror}); give another path") from None


def check_folder(option: str, folder: Path, command: str) -> None:
    """Raise OutputError if a command must not fill a folder: it is a link or a run's, or it holds anything else.

    Args:
        command: as it is typed, "tread-bench report"; it may fill a folder again that it has marked.
    """
    refuse_linked([folder])
    refuse_in_run(option, folder)
    try:
        there = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        made_by = read_file(folder / MARKER).decode(errors="replace") if MARKER in there else ""
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputError(f"{option} {folder} cannot be a folder ({error.strerror}); give another path") from None
    if there and made_by != command:
        holds = f"holds the output of `{shortened_middle(printable(made_by))}`" if made_by else f"contains {there[0]}"
        rule = f"`{command}` fills a folder that is new, empty or its own"
        raise OutputError(f"{option} {folder} {holds}, and {rule}; give another path")


def claim_folders(command: str, folders: Mapping[str, Path | None]) -> None:
    """Check folders, then make and mark them: from now on they are the command's. Raises OutputError.

    Args:
        folders: by the option that names them; None: not requested.
    """
    named = {option: folder for option, folder in folders.items() if folder is not None}
    for option, folder in named.items():
        check_folder(option, folder, command)
    for folder in named.values():
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / MARKER).exists():
            write_atomically(folder / MARKER, command)
