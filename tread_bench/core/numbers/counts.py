"""What networks were counted to cost, kept on disk: counting takes torch, and reading does not."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, TypeVar

from pydantic import TypeAdapter

from tread_bench.core.describe.families import Cost, Macs
from tread_bench.core.describe.plugins import Description, code_sha256, named
from tread_bench.core.stored.cache import cache_folder, keep

# What a count follows from, beside plug-ins of third parties.
_COUNTING = tuple(f"tread_bench.{room}" for room in ("backbones", "core", "data", "diffusion", "measure", "model"))
_LIBRARIES = ("torch", "timm", "peft")
_adapter: Any = cache(TypeAdapter)
_known: dict[str, Any] = {}
T = TypeVar("T")


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


def counted(kind: type[T], target: str, about: str, plugins: Sequence[Description], *arguments: Any) -> T:
    """Return what a function counts, from disk where the same code has counted the same before.

    Args:
        kind: type of the result.
        target: "module:attribute" of the function.
        about: all that the result depends on besides code: what distinguishes `arguments`.
        plugins: what is counted; of code that no distribution has announced, nothing is kept.
    """
    # Where it is kept.
    code = []
    for plugin in plugins:
        if not plugin.source:
            return named(target)(*arguments)
        builder = getattr(plugin, "builder", "") or getattr(plugin, "ranking", "")
        own = "" if plugin.is_own or not builder else _code_of(builder.partition(":")[0].partition(".")[0])
        code.append(f"{plugin.source} {builder} {own}")
    key = f"{target} {about} {sorted(code)} {_code()}"
    path = cache_folder("costs") / f"{_checksum(key.encode()).decode()}.json"

    # Read it, or count. The first line is a checksum of the others.
    if key not in _known:
        try:
            checksum, _, written = path.read_bytes().partition(b"\n")
            if checksum != _checksum(written):
                raise ValueError("damaged")
            _known[key] = _adapter(kind).validate_json(written)
        except (OSError, ValueError):
            _known[key] = named(target)(*arguments)
            written = _adapter(kind).dump_json(_known[key])
            keep(path, _checksum(written) + b"\n" + written)
    return _known[key]


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


@cache
def _code_of(package: str) -> str:
    return code_sha256([package])


@cache
def _code() -> str:
    """The code of this package that counts, and the libraries that it counts with."""
    return f"{code_sha256(_COUNTING)} {[version(library) for library in _LIBRARIES if find_spec(library)]}"
