"""The folder that a page is written into, where `--out` names one."""

from __future__ import annotations

from pathlib import Path

from tread_bench.core.errors import UserError
from tread_bench.core.outputs import refuse_foreign, refuse_linked


def make_page_folder(out: Path, *names: str) -> None:
    """Make it, before any work for the page and for the files with these names beside it.

    Raises:
        UserError: it is a run folder, whose own page would be replaced, or it cannot be a folder.
        OutputError: it contains one of them that this program did not write, or figures behind a link.
    """
    if (out / "plan.json").exists():
        raise UserError(f"--out {out} is a run folder, whose page would be replaced: give another")
    refuse_linked([out / "figures"])
    refuse_foreign("--out", [out / name for name in ("index.html", *names)])
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out} cannot be a folder: {error.strerror}; give another") from None
