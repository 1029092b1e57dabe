"""Lookup of mixers by name, through entry points of the group `tread_bench.mixers`.

A mixer fills the slot of a block where a Transformer has attention: it mixes the tokens of a sequence, most mixers in
time linear in their number. Its `MixerFamily` states what the rest of the package needs to know about it; nobody
compares its name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tread_bench.core.describe.plugins import Description, Kind


@dataclass(frozen=True, slots=True)
class MixerSize:
    """Sizes of a mixer, and where it is: `block` of `depth` blocks, which initial weights may depend on."""

    width: int
    heads: int
    block: int = 0
    depth: int = 1
    directions: int = 1  # 2: also from the last token to the first, with weights of its own


def heads_divide_width(size: MixerSize) -> str:
    """Return the rule that sizes break whose heads have no whole number of channels; empty if none."""
    return f"hidden {size.width} must be a multiple of heads {size.heads}" if size.width % size.heads else ""


@dataclass(frozen=True, kw_only=True)
class MixerFamily(Description):
    """Torch-free description of a mixer, along one order of the tokens.

    Args:
        name: its name in a suite.
        about: one line that `tread-bench list mixers` shows.
        builder: "module:attribute" of a callable (MixerSize, kernels) -> `tread_bench.backbones.mixers.base.Mixer`.
        rule: MixerSize -> the rule that these sizes break; empty if none.
        kernels: kinds of formulations that it chooses from.
        shares_values: its blocks also read the values of the first block that a token passed.
        goes_both_ways: it can mix in two directions at once.
        gates_by_token: decays of the state can be raised for the tokens that were skipped.
    """

    about: str
    builder: str
    rule: Callable[[MixerSize], str] = lambda size: ""
    kernels: tuple[str, ...] = ()
    shares_values: bool = False
    goes_both_ways: bool = False
    gates_by_token: bool = False


mixers = Kind("mixer", "tread_bench.mixers", MixerFamily)


def both_ways() -> tuple[str, ...]:
    """Return the names of the mixers that can mix in two directions at once."""
    return tuple(name for name, mixer in mixers().items() if mixer.goes_both_ways)
