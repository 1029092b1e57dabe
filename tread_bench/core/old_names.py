"""Old names of modules that plug-ins may import: for one version they still work, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# Old name -> new name; submodules have moved with their package.
MOVED = {
    "tread_bench.backbone": "tread_bench.model.backbone",
    "tread_bench.draws": "tread_bench.core.draws",
    "tread_bench.ops": "tread_bench.model.ops",
    "tread_bench.registry": "tread_bench.core.families",
    "tread_bench.routes": "tread_bench.core.routes",
}


class _SameModule(Loader):
    """Loads the module of the new name under the old one, so that everything in it exists once."""

    def __init__(self, new: str) -> None:
        self.new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.new)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own_spec  # the import system has replaced it with the old name's


class _OldNames(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for old, new in MOVED.items():
            if fullname == old or fullname.startswith(f"{old}."):
                moved = new + fullname.removeprefix(old)
                message = f"{fullname} has moved; import its names from tread_bench, or else from {moved}"
                warnings.warn(message, FutureWarning, stacklevel=2)
                return ModuleSpec(fullname, _SameModule(moved))
        return None


def redirect_old_names() -> None:
    """Make `import` find the old names.

    Our finder comes first: below a moved package, the import system would otherwise load modules a second time.
    """
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OldNames())
