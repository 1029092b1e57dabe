"""No text of this program talks anybody into losing something."""

from __future__ import annotations

import os

import pytest
import typer

from tread_bench.cli.app import FORGETS, app
from tread_bench.core.stored import files
from tread_bench.core.stored.files import StoreError, read_json
from tread_bench.runner.folder import RunFolder

COMMANDS = dict(typer.main.get_command(app).commands)
COMMANDS |= COMMANDS.pop("ci").commands
REMOVING = {"--fresh", "--retry-failed", "--yes", "--accept", "--overwrite"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_that_removes_or_replaces_stands_under_that_heading(name):
    options = {opt: param for param in COMMANDS[name].params for opt in param.opts if opt.startswith("--")}
    assert {opt for opt, param in options.items() if getattr(param, "rich_help_panel", None) == FORGETS} == (
        options.keys() & REMOVING
    )


@pytest.mark.parametrize("reason", ["Permission denied", "Input/output error"])
def test_a_file_that_the_system_does_not_hand_out_is_not_called_damaged(tmp_path, monkeypatch, reason):
    number = {"Permission denied": 13, "Input/output error": 5}[reason]

    def refuse(path, *arguments, **options):
        raise OSError(number, os.strerror(number), str(path))

    (tmp_path / "cells" / "a").mkdir(parents=True)
    (tmp_path / "cells" / "a" / "record.json").write_text("{}")
    monkeypatch.setattr(files, "read_file", refuse)
    with pytest.raises(StoreError, match=rf"record.json cannot be read \({reason}\); make it readable$"):
        RunFolder(tmp_path).record("a")


def test_a_damaged_file_is_told_with_its_damage_and_kept(tmp_path):
    (tmp_path / "record.json").write_text('{"a": ')
    with pytest.raises(
        StoreError, match=r"record.json cannot be read as JSON \(.*column 6\); restore it, or move it away"
    ):
        read_json(tmp_path / "record.json")
    assert (tmp_path / "record.json").exists()
