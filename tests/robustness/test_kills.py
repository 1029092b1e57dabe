"""`kill -9` at random instants, over a runner, the server that it forks from, and its cells."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from life import Life

from tests.command_line import wait_for
from tests.toy_suite import FEW_SAMPLES, results, toy_suite, write_suite
from tread_bench.core.stored.files import temporaries
from tread_bench.runner.folder import RunFolder

KILLS, INSIDE = 200, 50
SUITE = toy_suite(
    iterations=80,
    checkpoint_every=1,
    at="40, ",
    seeds=3,
    hidden=64,
    batch=4,
    metrics=FEW_SAMPLES,
    more="limits: {retries: 1000}\n",
)


def kill_somebody(life: Life, out: Path, chance: random.Random) -> tuple[str, bool]:
    """Kill the runner, its server or, mostly, a cell: after a while, or while a file is written.

    A runner has one child with children, the server, whose children are cells.

    Returns:
        who; "" once the runner has ended; and whether a cell that died had half a file in its folder, which was not
        there before.
    """
    try:
        life.process.wait(chance.uniform(0, 4))
        return "", False
    except subprocess.TimeoutExpired:
        pass
    before = set(temporaries(out))
    is_over = time.monotonic() + (2 if chance.random() < 0.5 else 0)
    while life.process.poll() is None and time.monotonic() < is_over and not set(temporaries(out)) - before:
        time.sleep(0.001)
    who = chance.choices(["runner", "server", "cell"], [3, 1, 16])[0]
    try:
        runner = psutil.Process(life.process.pid)
        servers = [child for child in runner.children() if child.children()]
        cells = [cell for server in servers for cell in server.children()]
        victim = chance.choice({"runner": [runner], "server": servers, "cell": cells}[who])
        died = [victim] if who == "cell" else cells
        folders = [folder for cell in died if (folder := folder_of(cell))]
        victim.kill()
    except (IndexError, psutil.NoSuchProcess):
        return "nobody", False
    psutil.wait_procs(died, 10)
    written = set(temporaries(out)) - before
    return who, any(folder in path.parents for folder in folders for path in written)


def folder_of(cell: psutil.Process) -> Path | None:
    """The folder of a cell's log, once it has opened that."""
    try:
        log = Path(os.readlink(f"/proc/{cell.pid}/fd/1"))
    except OSError:
        return None
    return log.parent if log.name == "log" else None


def finished(out: Path) -> dict[Path, dict[str, object]]:
    """Records that are there, without speed, which comes last."""
    return {path: {**json.loads(path.read_text()), "timing": None} for path in out.glob("cells/*/record.json")}


@pytest.mark.endurance
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_200_kills_lose_nothing_change_nothing_and_leave_nobody(tmp_path):
    suite, began = write_suite(tmp_path, SUITE), time.monotonic()
    with Life("run", suite, "--out", tmp_path / "undisturbed", "--workers", 2) as life:
        assert life.process.wait() == 0
    expected = results(tmp_path / "undisturbed")
    assert len(expected) == 6

    chance, kills, inside = random.Random(0), Counter(), 0
    while kills.total() < KILLS:
        out, before, status = tmp_path / f"disturbed-{kills.total()}", {}, None
        while status != 0:
            with Life("run", suite, "--out", out, "--workers", 2) as life:
                while kills.total() < KILLS:
                    who, was_writing = kill_somebody(life, out, chance)
                    if not who:
                        break
                    kills[who] += who != "nobody"
                    inside += was_writing
                status = life.process.wait()
                wait_for(lambda life=life: not life.everybody(), 10)
            assert status in (0, -9)
            assert before.items() <= finished(out).items()
            before = finished(out)
        assert results(out) == expected
        RunFolder(out).remove(RunFolder(out).removable())
        assert not list(temporaries(out))
    print(f"kill -9: {dict(kills)}, {inside} of them inside writing; {time.monotonic() - began:.0f} s")
    assert inside >= INSIDE
