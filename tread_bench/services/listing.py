"""`list`: what can be named in a suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
from tread_bench.core.numbers.costs import num_parameters
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
                    "params": num_parameters(family, spec) if spec else None,
                    "num_blocks": family.num_blocks(spec) if spec else None,
                    "source": family.source,
                }
            )
    return rows


def _suites() -> list[dict[str, Any]]:
    return [{"name": name, "path": str(path)} for name, path in sorted(shipped_suites().items())]


def _plugins(known: Callable[[], Mapping[str, Any]], *keys: str) -> Callable[[], list[dict[str, Any]]]:
    """Return what lists the announced ones: name, what it is, further attributes, and the distribution it is from."""

    def rows() -> list[dict[str, Any]]:
        found = []
        for name, plugin in known().items():
            about = plugin.about if "about" in dir(plugin) else _first_line(plugin.options.__doc__)
            more = {key: _listed(getattr(plugin, key)) for key in keys}
            found.append({"name": name, "about": about, **more, "source": plugin.source})
        return found

    return rows


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _listed(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value


def _mixers() -> list[dict[str, Any]]:
    """With the values of the state of one block, at the width and heads of S."""
    small = MixerSize(width=384, heads=6)
    rows = []
    for one in mixers().values():
        more = {"state_of_s": one.state(small), "kernels": " ".join(one.kernels), "source": one.source}
        rows.append({"name": one.name, "about": one.about, **more})
    return rows


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
    "datasets": _plugins(data_sources),
    "objectives": _plugins(objectives),
    "samplers": _plugins(samplers, "order"),
    "selectors": _plugins(selectors, "token_orders"),
    "methods": _plugins(methods),
    "losses": _plugins(losses),
    "guidance": _plugins(guidance_rules),
    "metrics": _plugins(metrics),
    "extractors": _plugins(extractors),
    "text_encoders": _plugins(text_encoders),
    "kernels": _kernels,
}
