"""The command `list`: what can be named in a suite."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import typer

from tread_bench.cli.options import JsonOption

Listed = Literal[
    "backbones",
    "mixers",
    "suites",
    "datasets",
    "objectives",
    "samplers",
    "selectors",
    "methods",
    "losses",
    "guidance",
    "metrics",
    "extractors",
    "text_encoders",
    "schema",
]


def list_(what: Annotated[Listed, typer.Argument(help="what to list")], as_json: JsonOption = False) -> None:
    """List what can be named in a suite; `schema` is the JSON Schema of a suite file, for editors."""
    from rich.table import Table

    from tread_bench.cli.console import stdout_console
    from tread_bench.suite.schema import json_schema

    if what == "schema":
        typer.echo(json.dumps(json_schema(), indent=2))
        return
    rows = rows_of(what)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(*rows[0]) if rows else Table(what)
    for row in rows:
        table.add_row(*map(_shown, row.values()))
    stdout_console().print(table)


def rows_of(what: Listed) -> list[dict[str, Any]]:
    """Return what the command lists, a row each, as JSON values."""
    from tread_bench.core.describe.data_sources import data_sources, text_encoders
    from tread_bench.core.describe.families import families
    from tread_bench.core.describe.guidance import guidance_rules
    from tread_bench.core.describe.methods import losses, methods
    from tread_bench.core.describe.metrics import extractors, metrics
    from tread_bench.core.describe.mixers import mixers
    from tread_bench.core.describe.objectives import objectives, samplers
    from tread_bench.core.describe.selectors import selectors
    from tread_bench.core.numbers.costs import num_parameters
    from tread_bench.suite.load import shipped_suites

    rows: list[dict[str, Any]] = []
    if what == "suites":
        return [{"name": name, "path": str(path)} for name, path in sorted(shipped_suites().items())]

    # Every published size, at its family's default input, and every family that has none, without figures.
    if what == "backbones":
        for family in families().values():
            for name, sizes in family.published.items() or [(family.name, None)]:
                spec = None if sizes is None else family.spec(**sizes)
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

    # Other plug-ins: what each is, and the distribution that it is from.
    announced: dict[str, Callable[[], Mapping[str, Any]]] = {
        "mixers": mixers,
        "datasets": data_sources,
        "objectives": objectives,
        "samplers": samplers,
        "selectors": selectors,
        "methods": methods,
        "losses": losses,
        "guidance": guidance_rules,
        "metrics": metrics,
        "extractors": extractors,
        "text_encoders": text_encoders,
    }
    for name, plugin in announced[what]().items():
        about = plugin.about if "about" in dir(plugin) else (plugin.options.__doc__ or "").strip().partition("\n")[0]
        row = {"name": name, "about": about}
        if what == "mixers":
            row["kernels"] = " ".join(plugin.kernels)
        if what == "samplers":
            row["order"] = plugin.order
        if what == "selectors":
            row["token_orders"] = sorted(plugin.token_orders)
        rows.append({**row, "source": plugin.source})
    return rows


def _shown(value: object) -> str:
    if value is None:
        return "—"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
