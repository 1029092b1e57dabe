"""The command `list`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tread_bench.cli.options import JsonOption


class Listed(StrEnum):
    """What can be listed."""

    BACKBONES = "backbones"
    SUITES = "suites"
    DATASETS = "datasets"
    OBJECTIVES = "objectives"
    SAMPLERS = "samplers"
    SELECTORS = "selectors"
    METHODS = "methods"
    LOSSES = "losses"
    GUIDANCE = "guidance"
    METRICS = "metrics"
    EXTRACTORS = "extractors"
    KERNELS = "kernels"
    SCHEMA = "schema"


def list_(what: Annotated[Listed, typer.Argument(help="what to list")], as_json: JsonOption = False) -> None:
    """List what can be named in a suite; `schema` is the JSON Schema of a suite file, for editors."""
    from tread_bench.cli.show.listing import show_list, show_schema

    if what is Listed.SCHEMA:
        show_schema()
    else:
        show_list(what.value, as_json)
