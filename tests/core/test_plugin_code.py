"""The code of third parties' plug-ins, as a record has it."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from importlib import invalidate_caches
from types import SimpleNamespace

import pytest

from tests.run_folders import put
from tread_bench.core.config.suite import Cell
from tread_bench.core.describe import plugin_code
from tread_bench.core.describe.plugin_code import code_by_row, code_of


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder in which distributions are installed."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(site, name, modules, entry_points="", version="1.0"):
    """Write modules, by path, and what pip notes of their distribution."""
    for path, text in modules.items():
        put(site / path, text)
    put(site / f"{name}.dist-info" / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    put(site / f"{name}.dist-info" / "entry_points.txt", entry_points)
    invalidate_caches()


def plug_in(source="fill 1.0", builder="fill_net:Fill"):
    return SimpleNamespace(source=source, builder=builder)


ANNOUNCED = "[tread_bench.methods]\nfill = fill.family:FILL\n\n[console_scripts]\nother = other:main\n"
PACKAGE = {"fill/__init__.py": "", "fill/family.py": "FILL = 1\n", "fill/deep/net.py": "import torch\n"}


def expected(*files):
    lines = sorted(f"{path}  {hashlib.sha256(text.encode()).hexdigest()}\n" for path, text in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def test_it_is_the_version_and_a_hash_of_every_module_beside_description_and_builder(site):
    install(site, "fill", {**PACKAGE, "fill_net.py": "class Fill: ...\n", "other.py": ""}, ANNOUNCED)
    assert code_of([plug_in()]) == {
        "fill": f"fill 1.0 sha256:{expected(*PACKAGE.items())}",
        "fill_net": f"fill 1.0 sha256:{expected(('fill_net.py', 'class Fill: ...' + chr(10)))}",
    }
    assert not {"fill", "fill.family", "fill_net"} & sys.modules.keys(), "nothing is imported"


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("fill/family.py", True),
        ("fill/new.py", True),
        ("fill/deep/kernel.so", True),
        ("fill/notes.txt", False),
        ("fill/__pycache__/family.cpython-311.pyc", False),
        ("other.py", False),
    ],
)
def test_it_changes_with_every_module_of_the_package_and_with_nothing_else(site, path, counts):
    install(site, "fill", PACKAGE, ANNOUNCED)
    before = code_of([plug_in(builder="fill.net:Fill")])
    put(site / path, "changed")
    assert (code_of([plug_in(builder="fill.net:Fill")]) != before) == counts


def test_it_is_the_same_wherever_it_is_installed(site, monkeypatch):
    install(site / "a", "fill", PACKAGE, ANNOUNCED)
    install(site / "b", "fill", PACKAGE, ANNOUNCED)
    found = []
    for folder in ("a", "b"):
        with monkeypatch.context() as patched:
            patched.syspath_prepend(site / folder)
            found.append(code_of([plug_in(builder="fill.net:Fill")]))
    assert found[0] == found[1] != {}


def test_of_a_namespace_only_the_package_in_it_counts(site):
    """Packages of others share the namespace."""
    mine = {"lab_x/fill/__init__.py": "", "lab_x/fill/family.py": "FILL = 1\n"}
    install(site, "fill", mine, ANNOUNCED.replace("fill.family", "lab_x.fill.family"))
    plug = plug_in(builder="lab_x.fill.net:Fill")
    before = code_of([plug])
    put(site / "lab_x" / "theirs" / "__init__.py", "")
    assert list(before) == ["lab_x.fill"]
    assert code_of([plug]) == before
    put(site / "lab_x" / "fill" / "family.py", "FILL = 2\n")
    assert code_of([plug]) != before


def test_a_rule_of_guidance_has_no_builder_and_a_selector_names_it_otherwise(site):
    install(site, "fill", PACKAGE, ANNOUNCED)
    rule = SimpleNamespace(source="fill 1.0")
    selector = SimpleNamespace(source="fill 1.0", ranking="fill.net:ranks")
    assert code_of([rule]) == code_of([selector]) == code_of([plug_in(builder="absent:Fill")])


def cell(method):
    return Cell.model_validate({"backbone": {"name": "DiT-S/2"}, "method": method, "training": {"iterations": 1}})


def test_what_ships_with_tread_bench_has_none():
    assert code_by_row({"a row": cell("tread")}) == {"a row": {}}


def test_each_row_has_the_code_that_it_uses_and_no_file_is_read_for_each_row_again(site, monkeypatch):
    install(site, "fill", PACKAGE, ANNOUNCED)
    routed = cell("tread")
    theirs = replace(routed.method.family, source="fill 1.0", builder="fill.net:Fill")
    monkeypatch.setattr(type(routed.method), "family", theirs)
    read = []
    hashed = plugin_code._sha256
    monkeypatch.setattr(plugin_code, "_sha256", lambda package: read.append(package.name) or hashed(package))
    code = code_by_row({"dense": cell("dense"), **{f"routed {number}": routed for number in range(100)}})
    assert code.pop("dense") == {}
    assert {frozenset(used) for used in code.values()} == {frozenset({"fill"})} and len(code) == 100
    assert read == ["fill"]
