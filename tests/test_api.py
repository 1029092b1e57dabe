"""Runs from Python: what is handed on to the command line's own functions, and mistakes in the arguments."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tread_bench
from tests.toy_suite import toy_suite, write_suite
from tread_bench.core.errors import UserError
from tread_bench.core.problems import SuiteError
from tread_bench.runner.sources import Source
from tread_bench.suite.yaml import read_yaml


def test_overrides_from_python_are_those_of_the_command_line(monkeypatch, tmp_path):
    given = {}

    def stop(name, overrides, out, smoke, options, data_root):
        given.update(name=name, overrides=overrides, out=out, rows=options.rows, device=options.device)
        raise UserError("enough")

    monkeypatch.setattr("tread_bench.services.run.bring_up_to_date", stop)
    with pytest.raises(UserError, match="enough"):
        tread_bench.run(
            tmp_path / "a.yaml",
            out=str(tmp_path),
            rows="a,b",
            seeds=pd.Series([2]).iloc[0],
            training={"learning_rate": 1e-05},
            **{"metrics.at": np.array([2, 4]), "timing": {"pairs": np.int64(0)}, "data.train": [tmp_path / "é"]},
        )
    assert given["overrides"] == [
        "seeds=2",
        'training={"learning_rate": 1e-05}',
        "metrics.at=[2, 4]",
        'timing={"pairs": 0}',
        f'data.train=["{tmp_path}/é"]',
    ]
    about = (given["name"], given["out"], given["rows"], given["device"])
    assert about == (str(tmp_path / "a.yaml"), tmp_path, ("a,b",), "auto")


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        ({"training": {"iteratons": 3}, "sedes": 2}, ["did you mean 'seeds'", "did you mean 'iterations'"]),
        ({"rows": ["dens"]}, ["--rows: unknown row 'dens'; did you mean 'dense'"]),
        ({"executor": "slrum", "workers": 0}, ["did you mean 'slurm'", "workers 0: must be at least 1"]),
        ({"device": "gpu", "data": {1, 2}, "seeds": b"2"}, ["unknown device 'gpu'", "data {1, 2}: ", "seeds b'2': "]),
    ],
)
def test_mistakes_are_reported_together_before_anything_runs(arguments, messages, tmp_path):
    suite = write_suite(tmp_path, toy_suite(iterations=4, checkpoint_every=2))
    with pytest.raises((SuiteError, UserError)) as caught:
        tread_bench.run(suite, out=tmp_path / "run", **arguments)
    assert all(message in str(caught.value) for message in messages), caught.value
    assert not (tmp_path / "run").exists()


def test_a_suite_is_a_mapping_whose_mistakes_name_its_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite = {"name": "toy", "base": {"training": {"iteratons": 3}}, "rows": {"a": {"routes": "nowhere"}}, "seeds": 0}
    with pytest.raises(SuiteError) as caught:
        tread_bench.run(suite)
    keys = {line.partition(":")[0] for line in str(caught.value).splitlines()}
    assert keys >= {"base.training.iteratons", "rows.a.routes", "seeds"}, caught.value
    with pytest.raises(UserError, match=r"^base .*must be a number"):
        tread_bench.run({"name": "toy", "base": object()})
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_a_mapping_resumes_from_its_suite_file_and_prints_its_decision(tmp_path):
    suite, _, _ = read_yaml(toy_suite(iterations=4, checkpoint_every=2), "")
    found = tread_bench.run(suite, out=tmp_path / "run", device="cpu")
    again = tread_bench.run(tmp_path / "run" / "suite.yaml", out=tmp_path / "run", device="cpu")
    assert [record.cell for record in again.records] == [record.cell for record in found.records]
    sentences = [decision["sentence"] for decision in found.decision]
    assert str(found).splitlines() == [f"{tmp_path / 'run'}: 4 of 4 cells", *sentences]


def test_warnings_name_the_line_that_called(tmp_path, monkeypatch):
    monkeypatch.setattr("tread_bench.services.run.bring_up_to_date", lambda *_: SimpleNamespace(root=tmp_path))
    monkeypatch.setattr("tread_bench.api.read_run", lambda path: Source(path, None, [], {"dense-0": "damaged"}))
    for call in (tread_bench.load, tread_bench.run):
        with pytest.warns(UserWarning, match="left out: damaged") as warned:
            call(tmp_path)
        assert warned[0].filename == __file__


def test_what_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="is not a run folder"):
        tread_bench.load(tmp_path)
