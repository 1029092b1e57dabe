"""The command line as a user types it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import get_args

import pandas as pd
import psutil
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tests.command_line import command, cpu_seconds, hear_signals, tread_bench, tread_bench_anew, wait_for
from tests.toy_suite import TOY
from tests.yardstick import slowness
from tread_bench import __version__ as tread_bench_version
from tread_bench import load
from tread_bench.cli.app import GONE, app
from tread_bench.cli.commands.listing import Listed, list_
from tread_bench.core.describe.families import find_family
from tread_bench.runner.folder import MADE
from tread_bench.suite.load import shipped_suites

TIMINGS = {
    "images_per_s", "step_time_ms", "speedup", "speedup_low", "speedup_high", "train_seconds", "peak_memory_mib",
    "loop_time_ms", "data_wait_share", "data_wait_seconds", "paired_seconds", "dense_step_ms",
}  # fmt: skip


def test_help_is_instant_and_lists_the_commands():
    before = cpu_seconds()
    done = tread_bench_anew("--help")
    assert done.returncode == 0
    assert cpu_seconds() - before < 1.5 * slowness()  # half a second on a quiet machine; tests share theirs
    for name in ("run", "plan", "profile", "report", "status", "clean", "list", "doctor"):
        assert name in done.stdout


def test_no_command_has_more_options_than_can_be_read():
    commands = dict(get_command(app).commands)
    assert len(commands) <= 13
    commands |= commands.pop("ci").commands
    options = {name: sum(one.param_type_name == "option" for one in it.params) for name, it in commands.items()}
    most = {"profile": 12, "plan": 12}
    assert {name: count for name, count in options.items() if count > most.get(name, 15)} == {}


@pytest.mark.parametrize(("command", "option"), GONE)
def test_an_option_that_is_gone_names_what_is_typed_in_its_place(command, option):
    done = CliRunner().invoke(app, [command, "DiT-S/2", option, "8"])
    told = " ".join(done.output.replace("│", " ").split())
    assert done.exit_code == 2 and f"{option} is gone: write {GONE[command, option]}" in told


def test_sizes_are_set_as_other_keys_are():
    sizes = ("--set", "image_size=16", "--set", "channels=3", "--set", "num_classes=0")
    found = json.loads(tread_bench("profile", "DiT-S/2", *sizes, "--json").stdout)
    assert (found["image_size"], found["channels"], found["num_classes"]) == (16, 3, 0)
    assert sum(found["tokens_per_block"]) == 12 * 8**2


@pytest.mark.parametrize("command", [(), ("run",), ("list",)])
def test_h_is_help_of_every_command(command):
    short, long = (tread_bench(*command, name) for name in ("-h", "--help"))
    assert short.returncode == 0 and short.stdout == long.stdout and "Usage:" in short.stdout


def test_the_version_is_that_of_the_package():
    done = tread_bench("--version")
    assert (done.returncode, done.stdout) == (0, f"tread-bench {tread_bench_version}\n")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("tread-bench st", ["status"]),
        ("tread-bench run route_pl", ["route_placement", "route_placement_tuned"]),
        ("tread-bench plan imagenet256/", [name for name in shipped_suites() if name.startswith("imagenet256/")]),
        ("tread-bench run --retry", ["--retry-failed"]),
        ("tread-bench run my_own.y", []),  # the shell completes files
    ],
)
def test_a_shell_completes_commands_options_and_suites(typed, offered):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    done = tread_bench(_TREAD_BENCH_COMPLETE="complete_bash", **words)
    assert (done.returncode, done.stdout.split()) == (0, offered), done.stderr


def test_the_script_for_a_shell_is_printed():
    done = tread_bench("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0 and "_TREAD_BENCH_COMPLETE=complete_bash" in done.stdout


def test_run_leaves_a_whole_folder_and_prints_table_and_path(finished_toy):
    out, done = finished_toy
    assert "dense" in done.stdout
    assert "routed" in done.stdout
    assert done.stdout.rstrip().endswith(str(out / "index.html"))
    assert "[4/4]" in done.stderr
    for name in ("suite.yaml", "plan.json", "records.jsonl", "results.csv", "index.html"):
        assert (out / name).stat().st_size > 0, name
    assert any((out / "figures").glob("*.svg"))
    made = [
        p.relative_to(cell).as_posix() for cell in (out / "cells").iterdir() for p in cell.rglob("*") if p.is_file()
    ]
    assert len(made) > 20 and all(MADE.fullmatch(name) for name in made)
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert [r["status"] for r in records] == ["done"] * 4
    for record in records:
        assert [e["iteration"] for e in record["evaluations"]] == [30, 60]
        assert len(record["timing"]["step_times_ms"]) == 3
        assert record["timing"]["memory_kind"] == "resident set"
        assert len(record["similarity"]["matrix"]) == 4
        assert json.loads((out / "cells" / record["cell"] / "record.json").read_text()) == record


def test_dense_and_routed_cells_of_a_seed_share_initial_weights(trained_toy):
    records = [json.loads(line) for line in (trained_toy / "records.jsonl").read_text().splitlines()]
    by_seed = {}
    for record in records:
        by_seed.setdefault(record["seed"], set()).add(record["initial_weights_sha256"])
    assert [len(hashes) for hashes in by_seed.values()] == [1, 1]
    assert by_seed[0] != by_seed[1]


def test_second_run_does_nothing_says_so_and_is_quick(toy, toy_run):
    before = {path: path.stat().st_mtime_ns for path in toy_run.rglob("record.json")}
    start = cpu_seconds()
    done = tread_bench_anew("run", toy, "--out", toy_run)
    assert cpu_seconds() - start < 3 * slowness()
    assert done.returncode == 0
    assert "nothing to do" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in toy_run.rglob("record.json")} == before


def test_a_run_as_json_has_the_lines_of_results_csv(toy, toy_run):
    out = toy_run
    done = tread_bench("run", toy, "--out", out, "--json")
    document = json.loads(done.stdout)
    about = {"suite": "toy", "folder": str(out), "page": str(out / "index.html"), "smoke": False, "device": "cpu"}
    counts = {"cells": 4, "finished_now": 0, "failed": 0, "taken": 0, "hypothesis": None}
    (decision,) = document.pop("decision")
    reported = json.loads(tread_bench("report", out, "--json").stdout)
    assert reported["decision"] == load(out).decision == [decision]
    assert reported["hypothesis"] is load(out).hypothesis is None
    assert {key: value for key, value in document.items() if key != "results"} == about | counts
    with open(out / "results.csv", encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    written = [{name: "" if v is None else str(v) for name, v in line.items()} for line in document["results"]]
    assert written == lines and len(lines) == 8


def test_the_frame_of_a_run_and_of_its_export_is_results_csv(toy_run, tmp_path):
    out = toy_run
    frame = load(out).frame()
    assert frame.to_csv(index=False) == (out / "results.csv").read_text()
    assert frame.route_start.tolist() == [pd.NA] * 4 + [1] * 4 and frame.seed.dtype == "Int64"
    assert tread_bench("report", out, "--export", tmp_path / "toy.zip").returncode == 0
    exported = load(tmp_path / "toy.zip")
    assert exported.page is None and exported.frame().fid.tolist() == frame.fid.tolist()


def are_gone(processes: list[psutil.Process]) -> bool:
    """Whether all of them end soon."""
    _, left = psutil.wait_procs(processes, timeout=60)
    return not left


def test_killed_runner_leaves_no_orphans_and_the_next_run_ends_as_an_undisturbed_one(toy, trained_toy, tmp_path):
    out = tmp_path / "killed"
    runner = subprocess.Popen(command("run", toy, "--out", out), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    record = wait_for(lambda: next(out.glob("cells/*/record.json"), None))
    trained = json.loads(record.read_text())
    family = psutil.Process(runner.pid).children(recursive=True)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    assert are_gone(family)
    again = tread_bench("run", toy, "--out", out)
    assert again.returncode == 0, again.stderr
    assert "training: 4 to do" not in again.stderr
    assert {**json.loads(record.read_text()), "timing": None} == trained
    kept = [pd.read_csv(folder / "results.csv").drop(columns=list(TIMINGS)) for folder in (out, trained_toy)]
    pd.testing.assert_frame_equal(*kept)


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.endurance)])
def test_interrupted_runner_says_how_to_go_on_and_leaves_no_orphans(toy, tmp_path, number):
    out = tmp_path / "run"
    runner = subprocess.Popen(
        command("run", toy, "--out", out),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_signals,
    )
    wait_for(lambda: next(out.glob("cells/*/checkpoints/*.safetensors"), None))
    family = psutil.Process(runner.pid).children(recursive=True)
    runner.send_signal(number)
    assert "run the same command again to resume" in runner.communicate(timeout=20)[1]
    assert runner.returncode == 130
    assert are_gone(family)
    assert not list(out.glob("cells/*/record.json"))


def test_a_cell_that_diverges_keeps_its_row_and_the_others_are_what_they_would_have_been(toy, trained_toy, tmp_path):
    suite = tmp_path / "one_bad.yaml"
    hot = "  hot: {training.learning_rate: 1e30, method: tread, routes: 0:1@0.5}\n"
    suite.write_text(TOY.replace("name: toy", "name: one-bad").replace("timing:", f"{hot}timing:"))
    out = tmp_path / "run"
    done = tread_bench("run", suite, "--out", out, "--set", "seeds=1")
    assert done.returncode == 1
    frame = pd.read_csv(out / "results.csv")
    bad = frame[frame["status"] == "failed"]
    assert list(bad["row"]) == ["hot"]
    assert bad["reason"].str.contains("iteration|finite").all()
    good = frame[frame["status"] == "done"].drop(columns=[*TIMINGS, "suite"]).reset_index(drop=True)
    undisturbed = pd.read_csv(trained_toy / "results.csv").drop(columns=[*TIMINGS, "suite"])
    alike = undisturbed.query("seed == 0").reset_index(drop=True)
    pd.testing.assert_frame_equal(good, alike, check_dtype=False)  # a column with gaps holds other numbers
    assert "failed" in (out / "index.html").read_text()
    again = tread_bench("run", suite, "--out", out, "--set", "seeds=1")
    assert again.returncode == 1
    assert "--retry-failed" in again.stdout


def test_two_runners_on_one_folder_one_is_refused(toy, tmp_path):
    from tread_bench.runner.folder import RunFolder

    with RunFolder(tmp_path / "run").lock():
        done = tread_bench("run", toy, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr


SIX_MISTAKES = """\
name: six
seedz: 3
base:
  backbone: {name: DiT, depth: 4, hidden: 30, heads: 4, patch: 2}
  training: {iterations: many, batch: 16}
  metrics: {at: [10], num_sampels: 64}
rows:
  dense: {method: dens}
  routed: {method: tread, routes: 2-8@0.5}
  far: {method: tread, selecter: random}
"""


def test_six_mistakes_are_six_located_messages_and_status_two(tmp_path):
    suite = tmp_path / "six.yaml"
    suite.write_text(SIX_MISTAKES)
    done = tread_bench("run", suite, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert done.stdout == ""
    located = [line for line in done.stderr.splitlines() if line.startswith(f"{suite}:")]
    assert len(located) >= 6, done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "no_such_suite"), "route_placement"),
        (("run", "smoke", "--set", "training.iteratons=3"), "iterations"),
        (("plan", "smoke", "--set", "training.iterations=lots"), "iterations"),
        (("profile", "DiT-XL/3"), "DiT-XL/"),
        (("profile", "DiT-B/2", "--route", "2:14@0.5"), "12 blocks"),
        (("profile", "DiT-B/2", "--route", "2:8"), "START:END@RATE"),
        (("profile", "DiT-B/2", "--route", "2:8@0.5", "--as", "prxx"), "did you mean 'prx'?"),
        (("profile", "DiT-B/2", "--route", "2:8@0.5", "--depth", "57"), "name a trainer with --as"),
        (("profile", "DiT-B/2", "--route", "2:8@0.5", "--as", "prx", "--train"), "leave --train out"),
        (("profile", "DiT-B/2", "--route", "2:8@0.5", "--as", "prx", "--depth", "5"), "no block left in 5"),
        (("profile", "U-ViT-S/2-T2I", "--set", "num_classes=10"), "a model takes labels or text"),
        (("sample", "nowhere", "--cell", "dense"), "nowhere is not a run folder"),
        (("report", "."), "plan.json"),
    ],
)
def test_a_mistake_is_one_clear_message_and_status_two(arguments, told, tmp_path):
    done = tread_bench(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


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


def test_profile_s_table_has_the_figures_of_its_document():
    arguments = ("profile", "DiT-S/2", "--route", "2:8@0.5")
    found = json.loads(tread_bench(*arguments, "--json").stdout)
    lines = [line.strip("│ ").split(" │ ") for line in tread_bench(*arguments).stdout.splitlines() if "│" in line]
    table = {name.strip(): text.strip() for name, text in lines}
    ratio = f"routed / dense = {found['macs_ratio']:.3f}"
    assert table["parameters"] == f"{found['params']:,} ({found['trainable_params']:,} trainable)"
    assert table["forward"].startswith(f"{found['forward_macs'] / 1e9:.3f} GMACs")
    assert table["forward, dense"] == f"{found['dense_forward_macs'] / 1e9:.3f} GMACs; {ratio}"
    assert table["training step"] == f"{found['train_step_macs'] / 1e9:.3f} GMACs per image"
    assert table["tokens per block"] == "2 x 256, 7 x 128, 3 x 256"


def test_profile_of_dit_xl_is_the_published_one():
    dense = json.loads(tread_bench("profile", "DiT-XL/2", "--json").stdout)
    assert dense["forward_macs"] / 1e9 == pytest.approx(118.62, rel=1e-3)
    assert dense["trainable_params"] == 674_834_720
    routed = json.loads(tread_bench("profile", "DiT-XL/2", "--route", "2:-4@0.5", "--json").stdout)
    assert routed["macs_ratio"] == pytest.approx(0.583, abs=5e-4)
    assert routed["dense_forward_macs"] == dense["forward_macs"]


@pytest.mark.parametrize(
    ("name", "shape", "params"),
    [
        ("U-ViT-S/2-T2I", (32, 4, 0), 44_692_644),
        ("MMDiT-B/2-T2I", (32, 4, 0), 505_070_608),
        ("ZigMa-Demo/1-T2I", (32, 3, 0), 116_996_483),
        ("LightningDiT-B/1", (16, 32, 1000), 130_556_192),
    ],
)
def test_profile_takes_the_published_input(name, shape, params):
    found = json.loads(tread_bench("profile", name, "--json").stdout)
    assert (found["image_size"], found["channels"], found["num_classes"]) == shape
    assert found["params"] == params


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
    rows = {row["row"]: row for row in plan["rows"]}
    assert rows["dense"]["ideal_speedup"] == 1
    assert rows["tread-2:8"]["params"] == rows["dense"]["params"] > rows["fewer-blocks"]["params"]


@pytest.mark.parametrize("what", [what for what in get_args(Listed) if what != "schema"])
def test_everything_that_can_be_named_is_listed(what):
    listed = json.loads(tread_bench("list", what, "--json").stdout)
    assert listed
    assert all("name" in entry for entry in listed)
    assert tread_bench("list", what).returncode == 0


def test_a_family_without_published_sizes_is_listed_by_its_name(monkeypatch, capsys):
    unpublished = replace(find_family("DiT")[0], name="Mine", aliases=(), published={})
    monkeypatch.setattr("tread_bench.core.describe.families.families", lambda: {"Mine": unpublished})
    list_("backbones", as_json=True)
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["family"], row["token_order"]) == ("Mine", "Mine", "set")
    assert row["params"] is row["num_blocks"] is None
    list_("backbones", as_json=False)
    assert "—" in capsys.readouterr().out


def test_schema_is_json_schema():
    assert json.loads(tread_bench("list", "schema").stdout)["$schema"].startswith("https://json-schema.org/")


def test_doctor_names_the_machine_and_the_weights():
    found = json.loads(tread_bench("doctor", "--json").stdout)
    assert found["versions"]["torch"]
    assert "sha256" in found["feature_networks"]["digits"]
    assert found["numerics"]["cpu"]["matmul_precision"] in ("medium", "highest")


def test_report_can_be_made_again(toy_run):
    out = toy_run
    before = (out / "results.csv").read_bytes()
    (out / "index.html").unlink()
    assert tread_bench("report", out).returncode == 0
    assert (out / "results.csv").read_bytes() == before
    assert (out / "index.html").exists()


def test_other_numerical_choices_on_a_begun_folder_are_refused(toy, toy_run):
    done = tread_bench("run", toy, "--out", toy_run, "--set", "compute.threads=2")
    assert done.returncode == 2
    assert "threads was 1, is 2" in done.stderr
    assert "--out" in done.stderr


def test_environment_is_not_written_into_the_run(trained_toy):
    secret = os.environ.get("PATH")
    texts = [path.read_text() for path in trained_toy.rglob("*.json")]
    assert not any(secret in text for text in texts)


def test_the_commit_is_that_of_the_program_and_of_nothing_around_it(tmp_path, monkeypatch):
    from tread_bench.runner import prepare as preparation

    state = preparation.git_state()
    told = subprocess.run(
        ["git", "log", "-1", "--format=%H %ct"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    if told.returncode == 0:
        assert [state.commit, str(int(datetime.fromisoformat(state.committed).timestamp()))] == told.stdout.split()
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    installed = tmp_path / ".venv" / "preparation.py"
    installed.parent.mkdir()
    installed.touch()
    monkeypatch.setattr(preparation, "__file__", str(installed))
    assert preparation.git_state() is None


@pytest.mark.full
def test_speed_is_measured_later_when_it_was_left_out_and_a_stale_page_is_made_again(toy, tmp_path):
    out = tmp_path / "run"
    assert tread_bench("run", toy, "--out", out, "--set", "seeds=1", "--set", "timing.pairs=0").returncode == 0
    trained = {path: json.loads(path.read_text()) for path in out.glob("cells/*/record.json")}
    assert pd.read_csv(out / "results.csv")["speedup"].isna().all()
    assert tread_bench("run", toy, "--out", out, "--set", "seeds=1").returncode == 0
    assert pd.read_csv(out / "results.csv")["speedup"].notna().all()
    assert {path: {**json.loads(path.read_text()), "timing": None} for path in trained} == trained
    os.utime(out / "index.html", (0, 0))
    tread_bench("run", toy, "--out", out, "--set", "seeds=1")
    assert (out / "index.html").stat().st_mtime > 0


def test_more_samples_than_are_held_out_are_refused_before_any_cell(toy, tmp_path):
    out = tmp_path / "run"
    settings = ["--set", "metrics.validation_samples=5000", "--set", "metrics.similarity_samples=360"]
    done = tread_bench("run", toy, "--out", out, *settings)
    assert done.returncode == 2 and not out.exists()
    for key in ("validation_samples 5000", "similarity_samples 360"):
        assert f"metrics.{key}: data digits holds out 359 samples; request fewer" in done.stderr


def test_a_launcher_of_several_processes_is_refused_before_anything_is_written(tmp_path):
    launched = {"LOCAL_RANK": "1", "RANK": "1", "WORLD_SIZE": "8"}
    done = tread_bench("run", "smoke", "--out", tmp_path / "run", **launched)
    assert done.returncode == 2 and not (tmp_path / "run").exists()
    assert "started `tread-bench run` 8 times" in done.stderr and "start it once" in done.stderr
