"""What networks were counted to cost, kept on disk: counting takes torch, and reading does not."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tread_bench.core.describe.families import Cost, Macs
from tread_bench.core.describe.plugins import Description, named
from tread_bench.core.stored.cache import cache_folder, keep

# Code that a count follows from, beside that of plug-ins.
_COUNTING = ("backbones", "core", "data", "diffusion", "measure", "model")
_LIBRARIES = ("torch", "timm", "peft")
_adapter = cache(TypeAdapter)
_known: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Counts:
    """A backbone counted with 0, 1 and 2 tokens that bypass its blocks: MACs quadratic in them are then known for any.

    `blocks` holds, for each block and each of the three, MACs (linear, attention, scan, inputs), of which the last are
    the block's part of `Cost.inputs`. `inputs` is the part outside the blocks.
    """

    params: int
    trainable_params: int
    outside: Macs
    inputs: int
    blocks: tuple[tuple[tuple[int, int, int, int], ...], ...]

    def cost(self, bypassed: Sequence[int]) -> Cost:
        """Return the cost where each block has a number of tokens that bypass it."""
        counts = [self._at(block, n) for block, n in enumerate(bypassed)]
        blocks = tuple(Macs(linear, attention, scan) for linear, attention, scan, _ in counts)
        inputs = self.inputs + sum(of_block for *_, of_block in counts)
        return Cost(self.params, self.trainable_params, blocks, self.outside, inputs)

    def block(self, block: int, bypassed: int) -> Macs:
        """Return the forward MACs of one block."""
        return Macs(*self._at(block, bypassed)[:3])

    def _at(self, block: int, n: int) -> list[int]:
        """The polynomial through the counts at 0, 1 and 2, at n (Newton's forward differences)."""
        by_kind = zip(*self.blocks[block], strict=True)
        return [zero + n * (one - zero) + n * (n - 1) // 2 * (two - 2 * one + zero) for zero, one, two in by_kind]


def counted(kind: Any, target: str, about: str, plugins: Sequence[Description], *arguments: Any) -> Any:
    """Return what a function counts, from disk where the same code has counted the same before.

    Args:
        kind: type of the result.
        target: "module:attribute" of the function.
        about: all that the result depends on besides code: what distinguishes `arguments`.
        plugins: what is counted; of code that no distribution has announced, nothing is kept.
    """
    # Where it is kept.
    if not all(plugin.source for plugin in plugins):
        return named(target)(*arguments)
    builders = [getattr(plugin, "builder", "") or getattr(plugin, "ranking", "") for plugin in plugins]
    packages = frozenset(builder.partition(":")[0].partition(".")[0] for builder in builders)
    key = f"{target} {about} {sorted(builders)} {_code(packages)}"
    path = cache_folder("costs") / f"{hashlib.sha256(key.encode()).hexdigest()}.json"

    # Read it, or count.
    if key not in _known:
        try:
            _known[key] = _adapter(kind).validate_json(path.read_bytes())
        except (OSError, ValueError):
            _known[key] = named(target)(*arguments)
            keep(path, _adapter(kind).dump_json(_known[key]))
    return _known[key]


@cache
def _code(packages: frozenset[str]) -> str:
    """SHA-256 of the modules of packages, of this one of those that count, and the versions of libraries."""
    digest = hashlib.sha256()
    own = Path(__file__).parents[2]
    roots = [own / part for part in _COUNTING]
    for package in sorted(packages - {"tread_bench", ""}):
        found = find_spec(package)
        roots += map(Path, found.submodule_search_locations or [found.origin or ""]) if found else []
    for library in _LIBRARIES:
        found = find_spec(library)
        if found and found.origin:
            roots += [Path(found.origin), Path(found.origin).with_name("version.py")]
    for root in roots:
        for path in [root] if root.is_file() else sorted(root.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
