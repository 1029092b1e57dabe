"""The folders that a page and an export are written into, where `--out` and `--export` name them."""

from __future__ import annotations

from pathlib import Path

from tread_bench.core.errors import UserError
from tread_bench.core.outputs import refuse_foreign, refuse_linked


def make_page_folder(out: Path, *names: str) -> None:
    """Make it, before any work for the page and for the files with these names beside it.

    Raises:
        UserError, OutputError: as `check_page_folder`, or it cannot be a folder.
    """
    check_page_folder(out, *names)
    _make("--out", out)


def check_page_folder(out: Path, *names: str) -> None:
    """Check it, and make nothing.

    Raises:
        UserError: it is a run folder, whose own page would be replaced.
        OutputError: it contains one of them that this program did not write, or figures behind a link.
    """
    if (out / "plan.json").exists():
        raise UserError(f"--out {out} is a run folder, whose page would be replaced: give another")
    refuse_linked([out / "figures"])
    refuse_foreign("--out", [out / name for name in ("index.html", *names)])


def try_export_folder(folder: Path) -> None:
    """Make the folder of an export, before any work; which files it will hold is known only once they are drawn.

    Raises:
        UserError: it is a run folder or a folder that a run keeps its own files in, or it cannot be a folder.
    """
    if any((place / "plan.json").exists() for place in (folder, folder.absolute().parent)):
        raise UserError(f"--export {folder} is in a run folder, whose own files have such names: give another")
    refuse_linked([folder])
    _make("--export", folder)


def _make(option: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{option} {folder} cannot be a folder: {error.strerror}; give another") from None
