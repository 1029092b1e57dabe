"""No environment variable of a library decides whether a command ends, nor how pictures look."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.command_line import command, tread_bench, tread_bench_anew
from tests.toy_suite import FEW_SAMPLES, toy_suite, write_suite

CALL = "from tread_bench.core.processes import import_matplotlib; import_matplotlib(); import matplotlib; "
NO_USER = ["unshare", "--user", "--map-user=12345", "env", "-u", "HOME", "-u", "XDG_CACHE_HOME"]


@pytest.mark.full
@pytest.mark.parametrize(
    "variable",
    [
        ("MPLBACKEND", "module://matplotlib_inline.backend_inline"),
        ("MPLBACKEND", "nonsense"),
        ("MATPLOTLIBRC", b"font.size: 30\naxes.facecolor: red\nlines.linewidth: x"),
        ("MPLCONFIGDIR", "/dev/null"),
    ],
    ids=lambda variable: f"{variable[0]} {variable[1]!r:.20}",
)
def test_pictures_are_the_same_under_any_setting_of_matplotlib(toy_run, tmp_path, variable):
    name, value = variable
    if isinstance(value, bytes):
        (tmp_path / "matplotlibrc").write_bytes(value)
        value = str(tmp_path / "matplotlibrc")
    before = {path.name: path.read_bytes() for path in toy_run.glob("figures/*.svg")}
    done = tread_bench_anew("report", toy_run, **{name: value})
    assert done.returncode == 0, done.stderr
    assert before and {path.name: path.read_bytes() for path in toy_run.glob("figures/*.svg")} == before


@pytest.mark.parametrize(("backend", "then"), [("svg", "svg"), ("nonsense", "agg")])
def test_what_the_user_draws_has_the_user_s_backend_where_there_is_one(backend, then, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", backend)
    code = CALL + "import matplotlib.pyplot; matplotlib.pyplot.figure(); print(matplotlib.get_backend())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == then, done.stderr


@pytest.mark.parametrize("variables", [{"TERMINAL_WIDTH": "x"}, {"COLUMNS": "0", "FORCE_COLOR": "1", "TERM": "x"}])
def test_help_and_tables_are_printed_under_any_setting_of_the_terminal(variables):
    for arguments in (["--help"], ["list", "selectors"]):
        done = tread_bench(*arguments, **variables)
        assert done.returncode == 0 and done.stdout, done.stderr


@pytest.mark.full
def test_a_user_without_a_name_and_a_home_runs_without_a_cache(tmp_path):
    if subprocess.run([*NO_USER, "true"]).returncode:
        pytest.skip("no user namespaces here")
    suite = write_suite(tmp_path, toy_suite(2, 2, seeds=1, metrics=FEW_SAMPLES, pairs=0))
    done = subprocess.run([*NO_USER, *command("run", suite, "--out", tmp_path / "run")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "index.html").exists()
