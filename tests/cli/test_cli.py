"""The command line as a user types it."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pandas as pd
import psutil
import pytest
from typer.main import get_command

from tests.command_line import command, cpu_seconds, tread_bench, tread_bench_anew, wait_for
from tests.toy_suite import TOY, write_suite
from tests.yardstick import slowness
from tread_bench import __version__ as tread_bench_version
from tread_bench import load
from tread_bench.cli.app import app
from tread_bench.cli.commands.listing import Listed, list_, rows_of
from tread_bench.cli.console import stdout_console
from tread_bench.core.describe.families import find_family
from tread_bench.runner.folder import MADE
from tread_bench.suite.load import find_suite, load_plan

TIMINGS = {
    "images_per_s", "step_time_ms", "speedup", "speedup_low", "speedup_high", "train_seconds", "peak_memory_mib",
    "loop_time_ms", "data_wait_share", "data_wait_seconds", "paired_seconds", "dense_step_ms",
}  # fmt: skip


def test_help_is_instant_and_lists_the_commands():
    before = cpu_seconds()
    done = tread_bench_anew("--help")
    assert cpu_seconds() - before < 1.5 * slowness()  # half a second on a quiet machine; tests share theirs
    names = ("run", "plan", "profile", "report", "status", "clean", "list", "doctor")
    assert done.returncode == 0 and all(name in done.stdout for name in names)


def test_no_command_has_more_options_than_can_be_read():
    commands = dict(get_command(app).commands)
    assert len(commands) <= 13
    commands |= commands.pop("ci").commands
    options = {name: sum(one.param_type_name == "option" for one in it.params) for name, it in commands.items()}
    most = {"profile": 12, "plan": 12}
    assert {name: count for name, count in options.items() if count > most.get(name, 15)} == {}


def test_h_is_help_of_every_command_and_the_version_that_of_the_package():
    short, long = (tread_bench("list", name) for name in ("-h", "--help"))
    assert short.returncode == 0 and short.stdout == long.stdout and "Usage:" in short.stdout
    assert tread_bench("--version").stdout == f"tread-bench {tread_bench_version}\n"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("tread-bench run route_pl", ["route_placement", "route_placement_tuned"]),
        ("tread-bench run --retry", ["--retry-failed"]),
        ("tread-bench run my_own.y", []),  # the shell completes files
    ],
)
def test_a_shell_completes_options_and_suites(typed, offered):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    done = tread_bench(_TREAD_BENCH_COMPLETE="complete_bash", **words)
    assert (done.returncode, done.stdout.split()) == (0, offered), done.stderr


def test_run_leaves_a_whole_folder_and_prints_table_and_path(finished_toy):
    out, done = finished_toy
    assert all(row in done.stdout for row in ("dense", "routed")) and "[4/4]" in done.stderr
    assert done.stdout.rstrip().endswith(str(out / "index.html"))
    for name in ("suite.yaml", "plan.json", "records.jsonl", "results.csv", "index.html"):
        assert (out / name).stat().st_size > 0, name
    assert any((out / "figures").glob("*.svg"))
    made = ["/".join(p.relative_to(out / "cells").parts[1:]) for p in out.glob("cells/*/**/*") if p.is_file()]
    assert len(made) > 20 and all(MADE.fullmatch(name) for name in made)
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert [r["status"] for r in records] == ["done"] * 4
    for record in records:
        assert [e["iteration"] for e in record["evaluations"]] == [30, 60]
        assert len(record["timing"]["step_times_ms"]) == 3
        assert record["timing"]["memory_kind"] == "resident set"
        assert len(record["similarity"]["matrix"]) == 4
        assert json.loads((out / "cells" / record["cell"] / "record.json").read_text()) == record

    # Dense and routed cells of a seed share their initial weights.
    hashes = {(record["seed"], record["initial_weights_sha256"]) for record in records}
    assert len(hashes) == 2 and {seed for seed, _ in hashes} == {0, 1}


def test_second_run_writes_nothing_says_so_and_is_quick(toy, toy_run):
    before, start = written(toy_run), cpu_seconds()
    done = tread_bench_anew("run", toy, "--out", toy_run)
    assert cpu_seconds() - start < 3 * slowness()
    assert (done.returncode, "nothing to do" in done.stdout) == (0, True)
    assert written(toy_run) == before


def written(out: Path) -> dict[Path, int]:
    """When each of a run's files was, but for locks."""
    return {
        path: path.stat().st_mtime_ns for path in out.rglob("*") if not path.name.startswith(".") and path.is_file()
    }


def test_a_run_as_json_has_the_lines_of_results_csv(toy, toy_run):
    out = toy_run
    done = tread_bench("run", toy, "--out", out, "--json")
    document = json.loads(done.stdout)
    about = {"suite": "toy", "folder": str(out), "page": str(out / "index.html"), "smoke": False, "device": "cpu"}
    about |= {"cells": 4, "finished_now": 0, "failed": 0, "taken": 0, "hypothesis": None}
    (decision,) = document.pop("decision")
    reported = json.loads(tread_bench("report", out, "--json").stdout)
    assert reported["decision"] == load(out).decision == [decision]
    assert reported["hypothesis"] is load(out).hypothesis is None
    assert {key: value for key, value in document.items() if key != "results"} == about
    lines = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
    written = [{name: "" if v is None else str(v) for name, v in line.items()} for line in document["results"]]
    assert written == lines and len(lines) == 8


def test_the_frame_of_a_run_and_of_its_export_is_results_csv_which_report_makes_again(toy_run, tmp_path):
    out = toy_run
    frame = load(out).frame()
    for name in ("results.csv", "index.html"):
        (out / name).unlink()
    assert tread_bench("report", out).returncode == 0 and (out / "index.html").exists()
    assert frame.to_csv(index=False) == (out / "results.csv").read_text()
    assert frame.route_start.tolist() == [pd.NA] * 4 + [1] * 4 and frame.seed.dtype == "Int64"
    assert tread_bench("report", out, "--export", tmp_path / "toy.zip").returncode == 0
    exported = load(tmp_path / "toy.zip")
    assert exported.page is None and exported.frame().fid.tolist() == frame.fid.tolist()


def test_killed_runner_leaves_no_orphans_and_the_next_run_ends_as_an_undisturbed_one(toy, trained_toy, tmp_path):
    out = tmp_path / "killed"
    runner = subprocess.Popen(command("run", toy, "--out", out), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    record = wait_for(lambda: next(out.glob("cells/*/record.json"), None))
    trained = json.loads(record.read_text())
    family = psutil.Process(runner.pid).children(recursive=True)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    _, left = psutil.wait_procs(family, timeout=60)
    assert not left
    again = tread_bench("run", toy, "--out", out)
    assert again.returncode == 0, again.stderr
    assert "training: 4 to do" not in again.stderr
    assert {**json.loads(record.read_text()), "timing": None} == trained
    kept = [pd.read_csv(folder / "results.csv").drop(columns=list(TIMINGS)) for folder in (out, trained_toy)]
    pd.testing.assert_frame_equal(*kept)


def test_a_cell_that_diverges_keeps_its_row_and_the_others_are_what_they_would_have_been(toy, trained_toy, tmp_path):
    hot = "  hot: {training.learning_rate: 1e30, method: tread, routes: 0:1@0.5}\n"
    suite, out = write_suite(tmp_path, TOY.replace("timing:", f"{hot}timing:")), tmp_path / "run"
    assert tread_bench("run", suite, "--out", out, "--set", "seeds=1").returncode == 1
    frame = pd.read_csv(out / "results.csv").drop(columns=list(TIMINGS))
    bad = frame[frame["status"] == "failed"]
    assert list(bad["row"]) == ["hot"] and bad["reason"].str.contains("iteration|finite").all()
    good = frame[frame["status"] == "done"].reset_index(drop=True)
    undisturbed = pd.read_csv(trained_toy / "results.csv").drop(columns=list(TIMINGS))
    alike = undisturbed.query("seed == 0").reset_index(drop=True)
    pd.testing.assert_frame_equal(good, alike, check_dtype=False)  # a column with gaps holds other numbers
    assert "failed" in (out / "index.html").read_text()
    again = tread_bench("run", suite, "--out", out, "--set", "seeds=1")
    assert again.returncode == 1 and "--retry-failed" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "no_such_suite"), "route_placement"),
        (("run", "smoke", "--set", "metrics.validation_samples=5000"), "digits holds out 359 samples; request fewer"),
        (("run", "smoke", "--set", "training.iteratons=3"), "iterations"),
        (("plan", "smoke", "--set", "training.iterations=lots"), "iterations"),
        (("profile", "DiT-XL/3"), "DiT-XL/"),
        (("profile", "DiT-B/2", "--route", "2:14@0.5"), "12 blocks"),
        (("profile", "DiT-B/2", "--route", "2:8"), "START:END@RATE"),
        (("profile", "DiT-B/2", "--route", "2:8@0.5", "--as", "prxx"), "did you mean 'prx'?"),
        (("profile", "DiT-B/2", "--route", "2:8@0.5", "--depth", "57"), "name a trainer with --as"),
        (("profile", "DiT-B/2", "--route", "2:8@0.5", "--as", "prx", "--depth", "5"), "no block left in 5"),
        (("profile", "U-ViT-S/2-T2I", "--set", "num_classes=10"), "a model takes labels or text"),
        (("sample", "nowhere", "--cell", "dense"), "nowhere is not a run folder"),
        (("report", "."), "plan.json"),
    ],
)
def test_a_mistake_is_one_clear_message_and_status_two(arguments, told, tmp_path):
    done = tread_bench(*arguments, cwd=tmp_path)
    assert (done.returncode, told in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def test_profile_writes_a_route_alone_to_copy():
    done = tread_bench("profile", "DiT-B/2", "--route", "2:8@0.5", "--as", "simpletuner", "--depth", "57")
    expected = '{"routes": [{"selection_ratio": 0.5, "start_layer_idx": 2, "end_layer_idx": 53}]}\n'
    assert (done.returncode, done.stdout) == (0, expected) and "holds for another network" in done.stderr


def test_profile_of_its_branches_is_that_of_sparse_guidance_as_published():
    """arXiv 2601.01608 leaves out the attention products: 114.42 unguided and 97.67 at rates .5/.9."""

    def without_attention(*route):
        found = json.loads(tread_bench("profile", "SiT-XL/2", *route, "--json").stdout)
        return (found["forward_macs"] - found["attention_macs"]) / 1e9

    strong, weak = (without_attention("--route", f"2:24@{rate}") for rate in (0.5, 0.9))
    assert (without_attention(), strong + weak) == pytest.approx((114.39, 97.65), abs=0.01)


def test_profile_of_dit_xl_is_the_published_one_in_its_document_and_table():
    dense = json.loads(tread_bench("profile", "DiT-XL/2", "--json").stdout)
    assert dense["forward_macs"] / 1e9 == pytest.approx(118.62, rel=1e-3)
    assert dense["trainable_params"] == 674_834_720
    routed = json.loads(tread_bench("profile", "DiT-XL/2", "--route", "2:-4@0.5", "--json").stdout)
    assert routed["macs_ratio"] == pytest.approx(0.583, abs=5e-4)
    assert routed["dense_forward_macs"] == dense["forward_macs"]
    shown = tread_bench("profile", "DiT-XL/2", "--route", "2:-4@0.5").stdout
    for told in ("routed / dense = 0.583", "674,834,720 trainable", "2 x 256, 23 x 128, 3 x 256"):
        assert told in shown
    for name, params in (("U-ViT-S/2-T2I", 44_692_644), ("LightningDiT-B/1", 130_556_192)):
        assert json.loads(tread_bench("profile", name, "--json").stdout)["params"] == params


def test_plan_shows_costs_without_torch():
    tread_bench("plan", "route_placement")  # what it counts, with torch, is kept
    code = (
        "import sys; from tread_bench.cli.app import app;"
        "app(['plan', 'route_placement', '--json'], standalone_mode=False);"
        "assert 'torch' not in sys.modules and 'timm' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert len(plan["cells"]) == 45
    assert plan["cells"] == [
        {"cell": cell.id, "row": cell.row, "seed": cell.seed, "config": cell.cell.model_dump(mode="json")}
        for cell in load_plan(find_suite("route_placement")).cells
    ]
    rows = {row["row"]: row for row in plan["rows"]}
    assert rows["dense"]["ideal_speedup"] == 1
    assert rows["tread-2:8"]["params"] == rows["dense"]["params"] > rows["fewer-blocks"]["params"]


def test_everything_that_can_be_named_is_listed():
    for what in set(get_args(Listed)) - {"schema"}:
        listed = rows_of(what)
        assert listed and all("name" in entry for entry in listed), what
    assert tread_bench("list", "samplers").returncode == 0
    assert json.loads(tread_bench("list", "schema").stdout)["$schema"].startswith("https://json-schema.org/")


def test_a_family_without_published_sizes_is_listed_by_its_name(monkeypatch, capsys):
    unpublished = replace(find_family("DiT")[0], name="Mine", aliases=(), published={})
    monkeypatch.setattr("tread_bench.core.describe.families.families", lambda: {"Mine": unpublished})
    list_("backbones", as_json=True)
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["family"], row["token_order"]) == ("Mine", "Mine", "set")
    assert row["params"] is row["num_blocks"] is None
    list_("backbones", as_json=False)
    assert "—" in capsys.readouterr().out


def test_other_numerical_choices_on_a_begun_folder_are_refused(toy, toy_run):
    done = tread_bench("run", toy, "--out", toy_run, "--set", "compute.threads=2")
    assert done.returncode == 2 and "threads was 1, is 2" in done.stderr and "--out" in done.stderr


def test_a_folder_in_the_git_repository_of_others_has_no_commit(tmp_path, monkeypatch):
    from tread_bench.runner import prepare

    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "prepare.py").touch()
    monkeypatch.setattr(prepare, "__file__", str(tmp_path / "prepare.py"))
    assert prepare.git_state() is None


@pytest.mark.parametrize("terminal", ["", "1"])
def test_what_is_printed_is_no_markup(terminal, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", terminal)
    stdout_console().print("[red]a")
    assert "red" in capsys.readouterr().out


def test_a_launcher_of_several_processes_is_refused_before_anything_is_written(tmp_path):
    launched = {"LOCAL_RANK": "1", "RANK": "1", "WORLD_SIZE": "8"}
    done = tread_bench("run", "smoke", "--out", tmp_path / "run", **launched)
    assert done.returncode == 2 and not (tmp_path / "run").exists()
    assert "started `tread-bench run` 8 times" in done.stderr and "start it once" in done.stderr
