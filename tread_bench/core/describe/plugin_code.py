"""The code of third parties' plug-ins: a distribution's version and a hash of its modules. No torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ModuleSpec
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tread_bench.core.describe.guidance import find_guidance
from tread_bench.core.describe.plugins import GROUPS, Description, is_own
from tread_bench.core.describe.selectors import find_selector

if TYPE_CHECKING:
    from tread_bench.core.config.suite import Cell

_CODE = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES)
_DIGITS = 16  # of the hash


def code_of(plugins: Iterable[Description]) -> dict[str, str]:
    """Return "distribution version sha256:digits" by package, of those that are not this package's own.

    The packages are those that hold the descriptions that the distribution announces and the builders of `plugins`.
    Nothing of them is imported.
    """
    return _code(_third_parties(plugins))


def code_by_row(cells: Mapping[str, Cell]) -> dict[str, dict[str, str]]:
    """Return the code of everything that each row's cell uses, as `code_of` does, read once for all rows alike."""
    read = cache(_code)
    return {row: read(_third_parties(_used_by(cell))) for row, cell in cells.items()}


def _used_by(cell: Cell) -> Iterator[Description]:
    # What is trained, and how.
    yield cell.backbone.family()
    yield cell.data.family
    if (encoder := cell.data.text_encoder) is not None:
        yield encoder.family
    yield cell.method.family
    yield find_selector(cell.selector)
    yield cell.objective.family
    yield from (loss.family for loss in cell.auxiliary)

    # How samples are generated and measured.
    if cell.generates:
        yield cell.sampling.sampler_family
        yield find_guidance(cell.sampling.guidance.name)
        yield cell.metrics.network(cell.data).family
        yield from (metric.family for metric in cell.metrics.of_samples)


def _third_parties(plugins: Iterable[Description]) -> frozenset[tuple[str, str]]:
    """The distribution of each, with its version, and the module of its builder."""
    found = set()
    for plugin in plugins:
        if not is_own(plugin):
            target = getattr(plugin, "builder", "") or getattr(plugin, "ranking", "")  # guidance has neither
            found.add((plugin.source, target.partition(":")[0]))
    return frozenset(found)


def _code(third_parties: frozenset[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for source, builder in sorted(third_parties):
        name, _, _ = source.rpartition(" ")
        announced = {point.module for point in distribution(name).entry_points if point.group.startswith(GROUPS)}
        packages = {package.name: package for package in filter(None, map(_outermost, announced | {builder}))}
        found |= {name: f"{source} sha256:{_sha256(package)[:_DIGITS]}" for name, package in packages.items()}
    return found


def _sha256(package: ModuleSpec) -> str:
    """That of a line for each of a package's modules, with its path and SHA-256, sorted."""
    origin = Path(str(package.origin))
    root = origin.parent if package.submodule_search_locations else origin
    lines = []
    for path in (root, *root.rglob("*")):
        if path.name.endswith(_CODE) and path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            lines.append(f"{path.relative_to(root.parent).as_posix()}  {digest}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _outermost(module: str) -> ModuleSpec | None:
    """The outermost package that a module lies in, or the module; namespaces are shared with others and do not count.

    None: there is no such module.
    """
    parts = module.split(".")
    for depth, part in enumerate(parts, 1):
        spec = find_spec(".".join(parts[:depth])) if part else None
        if spec is None or spec.origin is not None:
            return spec
    return None
