"""Where a command may write: a new file, a folder of its own, and in a run folder nothing but the run's own files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from glob import iglob
from pathlib import Path

from tread_bench.core.errors import printable, shortened_middle
from tread_bench.core.stored.files import write_atomically
from tread_bench.core.stored.foreign import read_file
from tread_bench.core.stored.outputs import OutputError, refuse_existing, refuse_irregular, refuse_linked

MARKER = "tread-bench.txt"  # in a folder of output; not hidden, so that whoever empties the folder removes it, too
_PLAN_KEYS = ("suite", "timing", "cells")
_CELL_KEYS = ("cell", "suite", "row", "config")


def is_run(folder: Path) -> bool:
    """Return whether a folder is that of a run: it holds a plan or a cell that this program wrote."""
    cells = iglob("cells/*/cell.json", root_dir=folder)
    return _has(folder / "plan.json", _PLAN_KEYS) or any(_has(folder / cell, _CELL_KEYS) for cell in cells)


def refuse_in_run(option: str, path: Path) -> None:
    """Raise OutputError if `path` is a run folder or inside one, also behind links."""
    real = Path(os.path.realpath(path))
    for place in (real, *real.parents):
        if is_run(place):
            raise OutputError(
                f"{option} {path} is in the run folder {place}, which only the run itself writes to; give another path"
            )


def refuse_taken(option: str, path: Path, overwrite: bool) -> None:
    """Raise OutputError if a file must not be written at `path`; call it before any work.

    Args:
        overwrite: whether a file that is there may be replaced.
    """
    refuse_in_run(option, path.parent)
    if overwrite:
        refuse_irregular(path, option)
    else:
        refuse_existing(path, option)


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
        raise _not_a_folder(option, folder, error) from None
    if there and made_by != command:
        holds = f"holds the output of `{shortened_middle(printable(made_by))}`" if made_by else f"contains {there[0]}"
        raise OutputError(
            f"{option} {folder} {holds}, and `{command}` fills a folder that is new, empty or its own; give another "
            "path"
        )


def claim_folders(command: str, folders: Mapping[str, Path | None]) -> None:
    """Check folders, then make and mark them: from now on they are the command's. Raises OutputError with all mistakes.

    Args:
        folders: by the option that names them; None: not requested.
    """
    named = {option: folder for option, folder in folders.items() if folder is not None}
    problems = []
    for option, folder in named.items():
        try:
            check_folder(option, folder, command)
        except OutputError as error:
            problems.append(str(error))
    if problems:
        raise OutputError("\n".join(problems))
    for option, folder in named.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _not_a_folder(option, folder, error) from None
        if not (folder / MARKER).exists():
            write_atomically(folder / MARKER, command)


def _not_a_folder(option: str, folder: Path, error: OSError) -> OutputError:
    return OutputError(f"{option} {folder} cannot be a folder ({error.strerror}); give another path")


def _has(path: Path, keys: Iterable[str]) -> bool:
    """Whether a file is a JSON object with these keys."""
    try:
        content = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.keys() >= set(keys)
