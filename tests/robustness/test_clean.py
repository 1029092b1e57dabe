"""`clean`, and whatever else removes, removes what this program made: nothing behind a link, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.command_line import tread_bench
from tests.robustness.marked_tree import mark, tree
from tests.run_folders import put
from tread_bench.runner.folder import RunFolder

STORED = Path(__file__).parents[1] / "stored"
STEP = "checkpoints/step-000000001.safetensors"


@pytest.fixture
def mine(tmp_path) -> Path:
    return mark(tmp_path / "mine")


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    """A run with a finished cell."""
    found = RunFolder(tmp_path / "run")
    for name in (STEP, "log"):
        put(found.cell("done") / name, "{}")
    for name in ("cell.json", "record.json"):
        content = json.loads((STORED / name).read_text())
        put(found.cell("done") / name, json.dumps({**content, "cell": "done"}))
    shutil.copy(STORED / "plan.json", found.root)
    return found


def clean(root: Path) -> str:
    done = tread_bench("clean", root, "--yes")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_behind_a_link_is_removed(folder, mine):
    links = ("cells/evil", "cells/done/checkpoints/more", "cells/done/more", "cells/none/inside", "figures", "more")
    for link in links:
        (folder.root / link).parent.mkdir(parents=True, exist_ok=True)
        (folder.root / link).symlink_to(mine, target_is_directory=True)
    before = tree(mine)
    told = clean(folder.root)
    assert tree(mine) == before
    assert all((folder.root / link).is_symlink() for link in links)
    assert not (folder.cell("done") / STEP).exists() and str(mine) not in told


@pytest.mark.parametrize("place", ["cells", "cells/done", "cells/done/checkpoints"])
def test_a_folder_of_the_run_that_is_a_link_is_left_alone(folder, mine, place):
    link = folder.root / place
    shutil.rmtree(link)
    link.symlink_to(mine / ("checkpoints" if place.endswith("checkpoints") else ""), target_is_directory=True)
    before = tree(mine)
    assert "nothing to remove" in clean(folder.root)
    assert tree(mine) == before


def test_what_others_put_into_a_run_folder_stays(folder):
    own = tree(folder.root)
    names = (
        *(".draft.tmp", "notes/.a.txt.ab12cd34.tmp", "cells/done/notes.txt", "cells/old/notes.txt"),
        *("cells/old/my/record.json", "cells/done/checkpoints/step-best.safetensors"),
        "cells/done/checkpoints/step-1.safetensors.bak",
    )
    for name in names:
        put(folder.root / name, "mine")
    told = clean(folder.root)
    assert tree(folder.root).keys() - own.keys() >= set(names)
    of_cells = [line for line in told.splitlines() if line.startswith(str(folder.root / "cells"))]
    assert of_cells == [str(folder.cell("done") / STEP)]


def test_every_path_is_named_before_it_goes_and_nothing_else_goes(folder):
    for name in (".tread-bench-ab12cd34.tmp", "figures/.tread-bench-ab12cd34.tmp"):
        put(folder.root / name, "left")
    before = tree(folder.root)
    told = tread_bench("clean", folder.root).stdout.splitlines()
    named = {line for line in told if line.startswith(f"{folder.root}/")}
    assert "1 checkpoint files of 1 finished cells" in told[-2] and "2 files left by interrupted" in told[-2]
    assert "--yes" in told[-1] and tree(folder.root).keys() - {".lock"} == before.keys()
    clean(folder.root)
    gone = before.keys() - tree(folder.root).keys()
    assert named == {str(folder.root / name) for name in gone} and len(gone) == 3
