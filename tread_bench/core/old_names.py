"""Modules that plug-ins imported before they moved: their old names still work, with a warning, for one version."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# Old name -> new name; what stands below an old name has moved with it.
MOVED = {
    "tread_bench.backbone": "tread_bench.model.backbone",
    "tread_bench.draws": "tread_bench.core.draws",
    "tread_bench.ops": "tread_bench.model.ops",
    "tread_bench.registry": "tread_bench.core.families",
    "tread_bench.routes": "tread_bench.core.routes",
}


class _SameModule(Loader):
    """Gives the module of the new name under the old one, so that there is one copy of everything in it."""

    def __init__(self, new: str) -> None:
        self.new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.new)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own_spec  # the import system has put the old name's in its place


class _OldNames(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for old, new in MOVED.items():
            if fullname == old or fullname.startswith(f"{old}."):
                moved = new + fullname.removeprefix(old)
                message = (
                    f"{fullname} has moved; import its names from tread_bench, or from {moved} what it does not have"
                )
                warnings.warn(message, FutureWarning, stacklevel=2)
                return ModuleSpec(fullname, _SameModule(moved))
        return None


def redirect_old_names() -> None:
    """Let `import` find old names: first, since below a moved package the import system would load modules anew."""
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OldNames())
