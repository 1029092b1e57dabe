"""The command `list`."""

from __future__ import annotations

from typing import Annotated, Literal

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
    "kernels",
    "schema",
]


def list_(what: Annotated[Listed, typer.Argument(help="what to list")], as_json: JsonOption = False) -> None:
    """List what can be named in a suite; `schema` is the JSON Schema of a suite file, for editors."""
    from tread_bench.cli.show.listing import show_list, show_schema

    if what == "schema":
        show_schema()
    else:
        show_list(what, as_json)
