"""Lookup of auxiliary losses by name, through entry points of the group `tread_bench.losses`.

An auxiliary loss is added to the training loss of any method. Its `LossFamily` states what the rest of the package
needs to know about it; nobody compares its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from tread_bench.core.config.base import Float, Model
from tread_bench.core.describe.plugins import Description, Kind
from tread_bench.core.problems import Problem


class LossOptions(Model):
    """A loss's settings in a suite. A subclass states its loss's name: `name: Literal["mine"] = "mine"`."""

    name: str = ""
    weight: Float = Field(gt=0)

    @property
    def family(self) -> LossFamily:
        return find_loss(self.name)


@dataclass(frozen=True, kw_only=True)
class LossFamily(Description):
    """Torch-free description of an auxiliary loss.

    Args:
        name: its name in a suite.
        options: its typed settings; the docstring's first line is what `tread-bench list losses` shows.
        builder: "module:attribute" of a callable (options, cell, backbone) -> `Auxiliary`.
        needs_absent_tokens: it is computed over tokens that were absent inside a route but are still predicted.
        reads_tokens: it reads every sample's tokens after a block (`Auxiliary.block`).
        sees_images: it reads `Images.seen`, images in [-1, 1]; of latents, those beside them.
        check: finds further problems of a cell with this loss; their keys are those of the loss's options.
        files: key of the options -> file that the loss reads.
    """

    options: type[LossOptions]
    builder: str
    needs_absent_tokens: bool
    reads_tokens: bool
    sees_images: bool = False
    check: Callable[[Any, Any], Iterable[Problem]] = lambda setting, options: ()
    files: Callable[[Any], Iterable[tuple[str, str]]] = lambda options: ()


LOSSES = Kind("auxiliary loss", "tread_bench.losses", LossFamily, LossOptions, key="auxiliary")
losses = LOSSES.all
find_loss = LOSSES.find
