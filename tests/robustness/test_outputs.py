"""No command replaces a file unless it is told to, writes to a folder of others or of a run, or through a link."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.robustness.marked_tree import mark, tree
from tests.run_folders import put
from tread_bench.cli.commands.check import check
from tread_bench.cli.commands.features import features
from tread_bench.cli.commands.report import export_run
from tread_bench.cli.commands.sample import sample
from tread_bench.core.errors import UserError
from tread_bench.core.stored.destinations import MARKER, claim_folders
from tread_bench.core.stored.files import OutputError, open_plain, replacing, write_atomically
from tread_bench.reports.page.document import write_pictures
from tread_bench.services.report import write_report

PLAN = Path(__file__).parents[1] / "stored" / "plan.json"


@pytest.fixture
def mine(tmp_path) -> Path:
    return mark(tmp_path / "mine")


# What nobody writes over: a path, and a folder of somebody else


LINKS = {
    "link": lambda path, mine: path.symlink_to(mine / "notes.txt"),
    "dangling": lambda path, mine: path.symlink_to(mine / "later"),
    "pipe": lambda path, mine: os.mkfifo(path),
}
NO_FILE = {**LINKS, "folder": lambda path, mine: path.mkdir()}
NO_FOLDER = {
    **LINKS,
    "text": lambda path, mine: path.write_text("mine"),
    "notes": lambda path, mine: put(path / "notes.txt", "mine"),
    "marker": lambda path, mine: put(path / MARKER, "mine"),
}


@pytest.mark.parametrize("there", NO_FILE)
def test_a_writer_replaces_plain_files_only_and_where_it_may(tmp_path, mine, there):
    path = tmp_path / "out"
    NO_FILE[there](path, mine)
    before = tree(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(OutputError):
            write_atomically(path, "new", overwrite=overwrite)
    with pytest.raises(OutputError, match="cannot be written"):
        open_plain(path, "a").close()
    assert tree(tmp_path) == before


def test_a_file_that_appears_during_the_work_is_not_replaced(tmp_path):
    path = tmp_path / "out"
    work = ExitStack()
    work.enter_context(replacing(path, overwrite=False)).write_text("new")
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        work.close()
    assert tree(tmp_path) == {"out": (path.stat().st_mode, b"mine")}


# A file that an option names


def images(out: Path | None, npz: Path | None = None, overwrite: bool = False) -> None:
    sample(Path("no-run"), "a", num=3, out=out, npz=npz, overwrite=overwrite)


FILES = {
    "check --junit": lambda path, overwrite: check(Path("no-run"), Path("no.json"), False, path, overwrite),
    "features --out": lambda path, overwrite: features("no-suite", path, overwrite=overwrite),
    "sample --npz": lambda path, overwrite: images(None, path, overwrite),
    "report --export": lambda path, overwrite: export_run([Path("no-run")], path, overwrite),
}


@pytest.mark.parametrize("there", NO_FILE)
@pytest.mark.parametrize("command", FILES)
def test_a_command_refuses_a_file_that_is_there_before_any_work(tmp_path, mine, command, there):
    NO_FILE[there](tmp_path / "out", mine)
    before = tree(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(OutputError, match=rf"^{command.split()[1]} .*out (exists|cannot be written)"):
            FILES[command](tmp_path / "out", overwrite)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("command", FILES)
def test_overwrite_lets_a_plain_file_be_replaced(tmp_path, command):
    path = tmp_path / "out"
    path.write_text("mine")
    with suppress(UserError):  # the run and the suite do not exist, which is reported once the path is accepted
        FILES[command](path, True)
    with pytest.raises(OutputError, match=rf"^{command.split()[1]} .*out exists"):
        FILES[command](path, False)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("command", FILES)
@pytest.mark.parametrize("place", ["run/index.html", "link/new", "run/new/new"])
def test_nothing_but_the_run_writes_to_its_folder(tmp_path, run, command, place):
    (tmp_path / "link").symlink_to(run / "cells")
    path = tmp_path / place
    before = tree(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(OutputError, match=rf"^{command.split()[1]} .* is in the run folder {run}, which only"):
            FILES[command](path, overwrite)
    assert tree(tmp_path) == before


@pytest.fixture
def run(tmp_path) -> Path:
    """The plan and the page of a run, with a picture of a cell."""
    root = tmp_path / "run"
    (root / "cells" / "a" / "samples").mkdir(parents=True)
    shutil.copy(PLAN, root)
    for name in ("index.html", "results.csv", "cells/a/samples/00000.png"):
        (root / name).write_text("the run's")
    return root


# A folder that an option names

FOLDERS = {
    "report --out": lambda folder: claim_folders("tread-bench report", {"--out": folder}),
    "report --tables": lambda folder: claim_folders("tread-bench report", {"--out": None, "--tables": folder}),
    "sample --out": images,
}


@pytest.mark.parametrize("command", FOLDERS)
@pytest.mark.parametrize("place", ["", "figures", "new/new"])
def test_no_other_folder_is_made_in_a_run(tmp_path, run, command, place):
    (tmp_path / "link").symlink_to(run)
    before = tree(tmp_path)
    for root in (run, tmp_path / "link" / "cells" / ".."):
        with pytest.raises(OutputError, match=rf"is in the run folder {run}|is a link to"):
            FOLDERS[command](root / place)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("there", NO_FOLDER)
@pytest.mark.parametrize("command", FOLDERS)
def test_what_is_no_folder_or_one_of_others_is_refused_and_left(tmp_path, mine, command, there):
    NO_FOLDER[there](tmp_path / "out", mine)
    before = tree(tmp_path)
    with pytest.raises(OutputError, match=r"is a link to|cannot be a folder|out (contains|holds the output of `mine`)"):
        FOLDERS[command](tmp_path / "out")
    assert tree(tmp_path) == before


def test_a_folder_belongs_to_the_command_that_has_made_it(tmp_path):
    out = tmp_path / "out"
    for _ in range(2):
        claim_folders("tread-bench report", {"--out": out, "--tables": out / "paper"})
        put(out / "index.html", "a page")
    before = tree(tmp_path)
    with pytest.raises(OutputError, match="output of `tread-bench report`, and `tread-bench evaluate` fills a fold"):
        claim_folders("tread-bench evaluate", {"--out": out})
    assert tree(tmp_path) == before


def test_folders_are_made_once_all_are_accepted(tmp_path):
    put(tmp_path / "paper" / "notes.txt", "mine")
    before = tree(tmp_path)
    with pytest.raises(OutputError, match=r"--tables .*paper contains"):
        claim_folders("tread-bench report", {"--out": tmp_path / "new", "--tables": tmp_path / "paper"})
    assert tree(tmp_path) == before


@pytest.mark.parametrize("place", ["figures", "cells", "samples"])
def test_a_report_writes_through_no_link(tmp_path, mine, place):
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(PLAN, run)
    (run / place).symlink_to(mine, target_is_directory=True)
    before = tree(tmp_path)
    with pytest.raises(OutputError, match="is a link to"):
        write_report([run])
    assert tree(tmp_path) == before


def test_pictures_of_the_earlier_page_go_and_all_others_stay(tmp_path):
    """Also where the page was written by somebody who wants other files to go."""
    named = "gap.svg linked.svg notes.txt ../outside.svg figures/gap-2.svg"
    put(tmp_path / "index.html", f'<meta name="figures" content="{named}">')
    for name in ("figures/gap.svg", "figures/gap-2.svg", "figures/mine.svg", "figures/notes.txt", "outside.svg"):
        put(tmp_path / name, "")
    (tmp_path / "figures" / "linked.svg").symlink_to("mine.svg")
    write_pictures([], tmp_path)
    stays = ["index.html", "linked.svg", "mine.svg", "notes.txt", "outside.svg"]
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == stays
