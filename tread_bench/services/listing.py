"""`list`: what can be named in a suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pydantic import BaseModel

from tread_bench.core.describe.data_sources import data_sources
from tread_bench.core.describe.extractors import extractors
from tread_bench.core.describe.families import families
from tread_bench.core.describe.guidance import guidance_rules
from tread_bench.core.describe.kernels import KERNELS, missing
from tread_bench.core.describe.losses import losses
from tread_bench.core.describe.methods import methods
from tread_bench.core.describe.metrics import metrics
from tread_bench.core.describe.mixers import MixerSize, mixers
from tread_bench.core.describe.objectives import objectives
from tread_bench.core.describe.samplers import samplers
from tread_bench.core.describe.selectors import selectors
from tread_bench.core.describe.text_encoders import text_encoders
from tread_bench.core.numbers.costs import cost_of
from tread_bench.suite.load import shipped_suites


def _backbones() -> list[dict[str, Any]]:
    """Every published size, at its family's default input, and every family that has none, without figures."""
    rows = []
    for family in families().values():
        for name, sizes in family.published.items() or [(family.name, None)]:
            spec = family.spec(**sizes) if sizes is not None else None
            rows.append(
                {
                    "name": name,
                    "family": family.name,
                    "token_order": family.token_order.value,
                    "params": cost_of(family, spec).params if spec else None,
                    "num_blocks": family.num_blocks(spec) if spec else None,
                    "source": family.source,
                }
            )
    return rows


def _suites() -> list[dict[str, Any]]:
    return [{"name": name, "path": str(path)} for name, path in sorted(shipped_suites().items())]


class _Announced(Protocol):
    """What is listed of whatever plugs in."""

    @property
    def options(self) -> type[BaseModel]: ...
    @property
    def source(self) -> str: ...


def _described(plugins: Mapping[str, _Announced]) -> list[dict[str, Any]]:
    """What is announced: its name, what its options' docstring says first, and the distribution that brings it."""
    return [
        {"name": name, "about": _about(plugin.options), "source": plugin.source} for name, plugin in plugins.items()
    ]


def _about(options: type[BaseModel]) -> str:
    return (options.__doc__ or "").strip().partition("\n")[0]


def _samplers() -> list[dict[str, Any]]:
    return [
        {"name": one.name, "about": one.about, "order": one.order, "source": one.source} for one in samplers().values()
    ]


def _mixers() -> list[dict[str, Any]]:
    """With the values of the state of one block, at the width and heads of S."""
    small = MixerSize(width=384, heads=6)
    return [
        {
            "name": one.name,
            "about": one.about,
            "state_of_s": one.state(small),
            "kernels": " ".join(one.kernels),
            "source": one.source,
        }
        for one in mixers().values()
    ]


def _selectors() -> list[dict[str, Any]]:
    return [
        {"name": one.name, "about": one.about, "token_orders": sorted(one.token_orders), "source": one.source}
        for one in selectors().values()
    ]


def _kernels() -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "name": name,
            "about": about,
            "cpu": missing(name, "cpu") or "yes",
            "cuda": missing(name, "cuda") or "yes",
        }
        for kind, names in KERNELS.items()
        for name, about in names.items()
    ]


LISTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "backbones": _backbones,
    "mixers": _mixers,
    "suites": _suites,
    "datasets": lambda: _described(data_sources()),
    "objectives": lambda: _described(objectives()),
    "samplers": _samplers,
    "selectors": _selectors,
    "methods": lambda: _described(methods()),
    "losses": lambda: _described(losses()),
    "guidance": lambda: _described(guidance_rules()),
    "metrics": lambda: _described(metrics()),
    "extractors": lambda: _described(extractors()),
    "text_encoders": lambda: _described(text_encoders()),
    "kernels": _kernels,
}
