"""`tox -e regression`, its own commands on the CPU twin: what the workflow on a GPU runner calls."""

from __future__ import annotations

import json
import re
import shlex
from configparser import ConfigParser
from pathlib import Path
from xml.etree import ElementTree

from tests.command_line import tread_bench

CHECKOUT = Path(__file__).parents[2]


def tox_commands(folder: Path, positional: str = "", **environment: str) -> list[list[str]]:
    """The environment's commands, as tox reads them."""
    tox = ConfigParser(interpolation=None)
    tox.read(CHECKOUT / "tox.ini")
    assert tox["testenv:regression"].getboolean("ignore_errors")
    text = tox["testenv:regression"]["commands"].strip().replace("\\\n", " ").replace("{/}", "/")
    text = text.replace("{env_tmp_dir}", str(folder)).replace("{posargs}", positional)
    while found := re.search(r"\{env:(\w+):([^{}]*)\}", text):
        text = text.replace(found[0], environment.get(found[1], found[2]))
    return [shlex.split(line) for line in text.splitlines()]


def called(commands):
    """The status that the environment ends with under ignore_errors: all are called, the first failure counts."""
    statuses = []
    for program, *arguments in commands:
        assert program == "tread-bench"
        statuses.append(tread_bench(*arguments, cwd=CHECKOUT).returncode)
    return next(filter(None, statuses), 0)


def test_the_cpu_twin_passes_against_the_reviewed_baseline_and_its_own_until_there_is_one_mac_more(tmp_path):
    assert called(tox_commands(tmp_path)) == 0
    root = ElementTree.parse(tmp_path / "check.xml").getroot()
    assert sum(int(suite.get("tests")) for suite in root) >= 5
    assert sum(int(suite.get("failures")) for suite in root) == 0
    assert (tmp_path / "run" / "index.html").is_file()

    baseline = tmp_path / "new" / "own.json"
    own = {"TREAD_BENCH_BASELINE": str(baseline)}
    assert called(tox_commands(tmp_path, **own)[1:]) == 2
    assert called(tox_commands(tmp_path, "--accept", **own)[1:]) == 0
    assert called(tox_commands(tmp_path, **own)[1:]) == 0
    accepted = json.loads(baseline.read_text())
    next(iter(accepted["cells"].values()))["exact"]["block_macs"][3] -= 1
    baseline.write_text(json.dumps(accepted))
    assert called(tox_commands(tmp_path, **own)[1:]) == 1
    failed = ElementTree.parse(tmp_path / "check.xml").findall("testsuite/testcase/failure/..")
    assert [case.get("name") for case in failed] == ["exact: block_macs"]


def test_a_run_that_cannot_begin_is_no_pass(tmp_path):
    assert called(tox_commands(tmp_path, TREAD_BENCH_SUITE="no_such_suite")) == 2
