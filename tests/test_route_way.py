"""The files that a route passes from a suite to the gather, as docs/architecture.md names them."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import FrameType

import torch

from tread_bench.core.describe.routes import ResolvedRoute, Route
from tread_bench.core.numbers.draws import normal
from tread_bench.core.stored.documents import CellRequest
from tread_bench.model.backbone import build_backbone
from tread_bench.model.methods.base import BatchRange
from tread_bench.model.network import build_network
from tread_bench.suite.load import load_plan

CHECKOUT = Path(__file__).parents[1]
OURS = tuple(f"{CHECKOUT / folder}{os.sep}" for folder in ("tread_bench", "backbones"))
ROUTE = "2:5@0.5"
SUITE = f"""
name: way
base:
  backbone: {{name: DiT, depth: 8, hidden: 32, heads: 2, patch: 2}}
  data: digits
  training: {{iterations: 4, batch: 8}}
rows:
  routed: {{method: tread, routes: {ROUTE}}}
"""


def test_a_route_is_handed_from_file_to_file_as_documented(tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE)
    with Way() as way:
        # From YAML to a planned cell, to its document on the disk and back.
        planned = load_plan(suite).cells[0]
        about = {"cell": planned.id, "row": planned.row, "seed": 0, "reference": planned.id}
        config = planned.cell.model_dump(mode="json")
        request = CellRequest(**about, suite="way", backbone="DiT", config=config)
        cell = CellRequest.model_validate_json(request.model_dump_json()).configuration

        # From there to the tokens of a training step.
        choice = cell.backbone
        backbone = build_backbone(choice.family(), choice.spec(cell.data), {"attention": "math"}, 0)
        network = build_network(cell, backbone, 0)
        x = torch.from_numpy(normal(0, "noise", 0, 4, (1, 8, 8)))
        network.train_forward(x, torch.rand(4), torch.arange(4), BatchRange(0, 0, 4))
    text = (CHECKOUT / "docs" / "architecture.md").read_text()
    section = text.split("**A route's way**")[1].split("\n\n")[0]
    assert way.files == re.findall(r"`([\w/]+\.py)`", section)
    assert len(way.files) <= 10


class Way:
    """Notes, in their order, the files with a function that is given the route: its text, itself, or a list of them."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def __enter__(self) -> Way:
        sys.setprofile(self.note)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(OURS):
            return
        file = Path(code.co_filename).relative_to(CHECKOUT).as_posix()
        given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
        is_gather = code.co_name == "gather_tokens"
        if file not in self.files and (is_gather or any(map(is_route, given))):
            self.files.append(file)


def is_route(value: object) -> bool:
    """Whether a value is the route itself, and nothing that it is a part of."""
    if isinstance(value, list | tuple):
        return bool(value) and all(map(is_route, value))
    return value == ROUTE if isinstance(value, str) else isinstance(value, Route | ResolvedRoute)
