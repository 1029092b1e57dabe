"""A suite whose hypothesis its rows could never decide is refused before it trains, with every reason at once."""

from __future__ import annotations

import pytest

from tread_bench.core.problems import SuiteError
from tread_bench.suite.load import load_plan

BASE = """\
name: study
base:
  backbone: {name: DiT, depth: 4, hidden: 16, heads: 2, patch: 2}
  training: {batch: 16, learning_rate: 1e-3}
matrix: MATRIX
rows:
  dense: {}
  routed: {method: tread, routes: 1:2@0.5, training: &equal {budget: {macs_of: dense}}}
ROWS
hypothesis: {claim: Routing pays., test: onset, margin: 1, stop: 3}
"""
LENGTHS = "{training.iterations: [60, 240]}"
THREE = "{training.iterations: [60, 240, 960]}"
CONTROL = "  fewer: {backbone: {depth: 3}, training: *equal}"


def said_of(folder, matrix=LENGTHS, rows=CONTROL, overrides=(), base=BASE):
    """Why the suite is refused, on one line; "" if it is planned."""
    path = folder / "suite.yaml"
    path.write_text(base.replace("MATRIX", matrix).replace("ROWS", rows))
    try:
        load_plan(path, overrides)
    except SuiteError as error:
        return " ".join(str(error).split())
    return ""


def widths(*lengths):
    """A matrix of widths, each with its numbers of iterations."""
    both = [f"{{backbone.hidden: {hidden}, training.iterations: {n}}}" for hidden, ns in lengths for n in ns]
    return f"{{include: [{', '.join(both)}]}}"


def test_arms_of_equal_budgets_and_references_are_planned(tmp_path):
    assert said_of(tmp_path) == ""
    assert said_of(tmp_path, widths((16, (60, 240)), (8, (206, 824)))) == ""
    assert said_of(tmp_path, rows="  other: {method: sprint, routes: 1:2@0.5}") == ""


DEEP = "  deep: {method: tread, routes: 1:2@0.5, training: *equal, backbone: {depth: 6}}"
AGAIN = DEEP.replace("deep", "again").replace("6", "3")
EDM = "  edm: {objective: {name: edm}, backbone: {depth: 3}}"
DENSE = BASE.replace("method: tread, routes: 1:2@0.5", "backbone: {depth: 3}")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        # Rows that cannot be compared.
        ({"rows": "  dear: {backbone: {depth: 3}}"}, "within 5%; give rows training: {budget: {macs_of: DENSE ROW}}"),
        ({"rows": f"{DEEP}\n{CONTROL}"}, "row 'deep iterations=60' has no dense row of the same tokens, width and dep"),
        ({"rows": f"{AGAIN}\n{CONTROL}"}, "'again iterations=60' has the route of another row in a network of another"),
        ({"rows": EDM}, "rows of 16 tokens differ in objective (dense iterations=60, edm iterations=60)"),
        ({"rows": "  u: {backbone: {name: U-ViT}}"}, "rows of 16 tokens differ in backbone"),
        ({"rows": "", "base": DENSE}, "no row has routes alone, so there is nothing to decide"),
        # Lengths that cannot be compared.
        ({"matrix": "{training.iterations: [60]}"}, "row 'fewer iterations=60' has 1; arms and widths"),
        ({"matrix": widths((16, (60, 240)), (8, (60, 240)))}, "all arms and widths must cost the same"),
        ({"matrix": widths((16, (60, 240)), (8, (206,)))}, "row 'fewer hidden=8 iterations=206' has 1 and row"),
        ({"matrix": THREE, "overrides": ["hypothesis.margin=5"]}, "second length is 4 times the first; it must not be"),
        ({"overrides": ["hypothesis.margin=1.1"]}, "margin 1.1: the arms have two lengths; a loss is read between"),
    ],
)
def test_what_cannot_be_decided_is_told(tmp_path, keys, message):
    found = said_of(tmp_path, **keys)
    assert message in found, found
