"""The tests that the pages of docs/extending show for a plug-in of one's own, run on others than the page's."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

PLUG_INS = Path(__file__).parent / "plugin"
PAGES = Path(__file__).parents[1] / "docs" / "extending"

# Kinds whose first test says whether there is anything to try: where it fails, the others fail for the same reason.
FIRST_DECIDES = ("feature-network", "guidance", "loss", "metric", "sampler", "text-encoder")


def blocks(kind: str) -> list[str]:
    """Return the code that the page of a kind shows."""
    page = (PAGES / f"{kind}.md").read_text(encoding="utf-8")
    return re.findall(r"^```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def checks_of(kind: str) -> str:
    """Return the tests among it."""
    (tests,) = (block for block in blocks(kind) if "\ndef test_" in block)
    return tests


def shown(kind: str) -> dict[str, Any]:
    """Return the module of these tests."""
    module: dict[str, Any] = {"__name__": f"checks_of_{kind}"}
    with mock.patch.object(sys, "path", [str(PLUG_INS / kind), *sys.path]):
        exec(compile(checks_of(kind), f"{kind}.md", "exec"), module)
    return module


def failing(kind: str, **names: object) -> set[str]:
    """Run the tests that the page of a kind shows, and return the names, without `test_`, of those that fail.

    Args:
        names: what takes the place of the page's own plug-in and options, by the names that its tests have for them.
    """
    module = shown(kind)
    assert names.keys() <= module.keys()
    module.update(names)

    failed = set()
    first = next(name for name in module if name.startswith("test_"))
    numpy_state = np.random.get_state()
    for name, test in list(module.items()):
        if name.startswith("test_"):
            try:
                with torch.random.fork_rng(devices=[]):
                    test()
            except Exception:  # a broken plug-in may raise anything
                failed.add(name.removeprefix("test_"))
                if kind in FIRST_DECIDES and name == first:
                    break
    np.random.set_state(numpy_state)
    return failed
