"""A run forgets when nothing can refuse it any more, asks first, and never takes somebody else's folder for its own."""

from __future__ import annotations

import io
import json
from collections import namedtuple
from pathlib import Path

import pytest

from tests.command_line import tread_bench
from tests.fake_executor import NUMERICS, Executor
from tests.robustness.marked_tree import mark, tree
from tests.run_folders import new_folder, put, quiet
from tread_bench.cell.loop import DivergedError
from tread_bench.cli.commands.run import _agree
from tread_bench.core.errors import UserError, failure_text
from tread_bench.core.stored.documents import Choices, initial_record
from tread_bench.runner import prepare as preparation
from tread_bench.runner import runner
from tread_bench.runner.folder import RunFolder
from tread_bench.runner.options import Call, Options
from tread_bench.runner.prepare import write_plan
from tread_bench.services.display import Lines
from tread_bench.suite.load import find_suite, load_plan

SUITE = find_suite("smoke")
PLAN = load_plan(SUITE, [])
CHOICES = Choices(numerics=NUMERICS, versions={})
EVERY_RUN_MAKES = {".lock", ".turn", ".numerics.log"}


@pytest.fixture
def there(monkeypatch):
    """Puts a machine where cells would run."""
    return lambda machine: monkeypatch.setattr(preparation, "executor_named", lambda *arguments: machine)


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    """A run whose cells have failed, with what they had trained, beside the files of somebody else."""
    mark(tmp_path / "mine")
    found = new_folder(tmp_path / "run")
    write_plan(PLAN, PLAN.cells, "", found, CHOICES)
    for cell in PLAN.cells:
        request = found.existing_request(cell.id)
        found.write_record(initial_record(request, found.plan(), reason="no luck"))
        put(found.cell(cell.id) / "weights" / "20.safetensors", "weights")
    return found


def run(root: Path, **asked: object):
    return runner.run(PLAN, Call("", RunFolder(root), Options(**asked), Lines(quiet)))


def no_space(monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(preparation.shutil, "disk_usage", lambda path: usage(1, 1, 0))


REFUSALS = {
    "no CUDA": Executor(refusal="--device cuda: torch sees no CUDA device here"),
    "no space": Executor(),
    "numerics": Executor(cpu_capability="NEON"),
}


@pytest.mark.parametrize("asked", [{"fresh": True}, {"retry_failed": True}], ids=str)
@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_run_that_is_refused_has_forgotten_nothing(folder, there, monkeypatch, refusal, asked):
    there(REFUSALS[refusal])
    if refusal == "no space":
        no_space(monkeypatch)
    if refusal == "numerics" and "fresh" in asked:
        pytest.skip("a run that starts afresh may have others")
    before = tree(folder.root.parent)
    with pytest.raises(UserError):
        run(folder.root, **asked)
    changed = dict(tree(folder.root.parent).items() ^ before.items())
    assert {Path(name).name for name in changed} <= EVERY_RUN_MAKES


@pytest.mark.parametrize("asked", [{"fresh": True}, {"retry_failed": True}], ids=str)
def test_what_the_user_wants_again_is_forgotten_once_nothing_refuses(folder, there, asked):
    there(Executor())
    run(folder.root, **asked)
    reasons = {folder.record(cell.id).reason for cell in PLAN.cells}
    assert reasons == {"not today"}
    assert not list(folder.root.glob("cells/*/weights/*"))


DIVERGED = [failure_text(error("nan")) for error in (DivergedError, FloatingPointError)]


@pytest.mark.parametrize(("reason", "resumes"), [("no luck", True), *((reason, False) for reason in DIVERGED)])
def test_a_failed_cell_resumes_from_its_checkpoint_unless_it_diverged(folder, there, reason, resumes):
    there(Executor())
    for cell in PLAN.cells:
        request = folder.existing_request(cell.id)
        folder.write_record(initial_record(request, folder.plan(), reason=reason))
        for name in ("step-000000010.safetensors", "step-000000010.sha256"):
            put(folder.cell(cell.id) / "checkpoints" / name, "here")
    run(folder.root, retry_failed=True)
    for cell in PLAN.cells:
        left = [path.name for path in folder.cell(cell.id).glob("checkpoints/*.safetensors")]
        assert left == (["step-000000010.safetensors"] if resumes else [])
        assert folder.record(cell.id).reason == "not today"


def test_fresh_names_what_it_drops_and_a_script_must_say_yes(folder):
    before = tree(folder.root / "cells")
    refused = tread_bench("run", SUITE, "--out", folder.root, "--fresh")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--yes" in refused.stderr.splitlines()[-1]
    for cell in PLAN.cells:
        assert f"{folder.cell(cell.id)}: {cell.row} seed {cell.seed}, finished" in refused.stderr
    assert tree(folder.root / "cells") == before


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_at_a_terminal_fresh_asks(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Terminal("y\nn\n\n"))
    _agree(False, "what goes")
    for _ in range(2):
        with pytest.raises(UserError, match="nothing was changed"):
            _agree(False, "what goes")
    assert "what goes" in capsys.readouterr().err


def test_nothing_is_asked_where_nothing_was_begun(tmp_path, there):
    there(Executor())
    runner.run(PLAN, Call("", RunFolder(tmp_path), Options(fresh=True), Lines(quiet), pytest.fail))
    assert RunFolder(tmp_path).record(PLAN.cells[0].id).reason == "not today"


# Whose folder it is


@pytest.mark.parametrize("name", ["index.html", "results.csv", "cells/a/record.json", "plan.json", "thesis.tex"])
def test_a_folder_with_files_of_somebody_else_is_refused_and_left_as_it_was(tmp_path, there, name):
    there(Executor())
    (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / name).write_text(json.dumps({"format_version": "1.2", "planned_values": {}}))
    for hidden in EVERY_RUN_MAKES:  # which `rm -rf RUN/*` leaves
        (tmp_path / hidden).touch()
    before = tree(tmp_path)
    for asked in ({}, {"fresh": True}):
        with pytest.raises(UserError, match=rf"not a run folder of tread-bench and contains {name.partition('/')[0]}"):
            run(tmp_path, **asked)
    assert tree(tmp_path) == before


def test_a_run_whose_plan_is_damaged_is_still_known_as_one(folder, there):
    there(Executor())
    folder.plan_path.write_text('{"suite": ')
    with pytest.raises(UserError, match=r"plan\.json cannot be read as JSON"):
        run(folder.root)
    run(folder.root, fresh=True)
    assert folder.plan().cells == [cell.id for cell in PLAN.cells]


# Links


@pytest.mark.parametrize("place", ["cells", "figures", "cells/{}", "cells/{}/checkpoints", ".lock", "plan.json"])
def test_a_run_writes_through_no_link(folder, there, place):
    there(Executor())
    mine = folder.root.parent / "mine"
    link = folder.root / place.format(PLAN.cells[0].id)
    if link.exists():
        link.rename(folder.root.parent / "moved")
    link.symlink_to(mine / "notes.txt" if place in (".lock", "plan.json") else mine)
    before = tree(mine)
    for asked in ({"retry_failed": True}, {"fresh": True}):
        with pytest.raises(UserError):
            run(folder.root, **asked)
    assert tree(mine) == before and link.is_symlink()
