"""docs/notebook.md as a reader runs it."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from matplotlib import pyplot

from tread_bench.reports.page import run as page

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.md"


@pytest.mark.full
def test_the_notebook_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(page, "pictures", lambda *arguments: [])  # which take seconds
    pyplot.close("all")
    said: dict[str, object] = {}
    text = NOTEBOOK.read_text(encoding="utf-8").replace("240", "48").replace("40", "8")  # iterations
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        exec(block, said)
    paired, frame, both = said["paired"], said["frame"], said["both"]

    # What its tables hold.
    at = frame[(frame.seed == 1) & (frame.iteration == 8)].set_index("row").fid
    line = paired[(paired.seed == 1) & (paired.iteration == 8)].iloc[0]
    assert line.fid_difference == at["middle"] - at["dense"] != 0
    assert both.groupby("learning_rate").cell.nunique().to_dict() == {2e-3: 9, 3e-3: 1}

    # What the notebook shows of the results themselves.
    shown = said["results"]._repr_html_()
    assert shown.count("<tr>") == 4 and (tmp_path / "fid.svg").is_file()
    assert said["results"].decision[0]["sentence"] in html.unescape(shown)
    assert all(test["outcome"] != "untested" for test in said["results"].decision[0]["tests"])

    assert [len(pyplot.figure(number).axes) for number in pyplot.get_fignums()] == [1, 2]  # curves; a map with its bar
    pyplot.close("all")
