"""What is said of the code of a distribution that announces plug-ins."""

from __future__ import annotations

import json
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from tread_bench.core.describe import plugins

EDITABLE = json.dumps({"url": "file:///here", "dir_info": {"editable": True}})
A_FOLDER = json.dumps({"url": "file:///here", "dir_info": {}})


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Gives the version of a distribution with one package, as it is now, with these files beside its metadata."""
    about = tmp_path / "fill-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fill\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[tread_bench.methods]\nfill = fill_in.family:FILL\n")
    for module in ("__init__", "family", "network"):
        (tmp_path / "fill_in").mkdir(exist_ok=True)
        (tmp_path / "fill_in" / f"{module}.py").write_text(f"raise ImportError({module!r})\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def version_with(**files: str) -> str:
        for name, content in files.items():
            (about / name.replace("_json", ".json")).write_text(content)
        plugins._about.cache_clear()
        name, version = plugins._about(Distribution.at(about))
        assert name == "fill"
        return version

    yield version_with
    plugins._about.cache_clear()


@pytest.mark.parametrize("files", [{}, {"direct_url_json": A_FOLDER}])
def test_of_an_installed_distribution_it_is_the_version(version, files, tmp_path):
    assert version(INSTALLER="pip\n", **files) == "1"
    (tmp_path / "fill_in" / "network.py").write_text("changed")
    assert version() == "1"


@pytest.mark.parametrize("files", [{}, {"INSTALLER": "pip\n", "direct_url_json": EDITABLE}])
def test_where_code_can_change_without_the_version_its_hash_follows(version, files, tmp_path):
    before = version(**files)
    assert before.startswith("1 sha256:") and len(before) == len("1 sha256:") + 16
    assert version() == before
    for module in ("family.py", "network.py"):
        (tmp_path / "fill_in" / module).write_text(f"# another {module}")
        assert version() != before
        before = version()
    (tmp_path / "fill_in" / "network.py").rename(tmp_path / "fill_in" / "renamed.py")
    assert version() != before
