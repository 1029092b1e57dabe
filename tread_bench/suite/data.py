"""The one data source that a command works on: that of a suite, or settings as a suite writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from tread_bench.core.config.base import Model
from tread_bench.core.config.choices import DataChoice
from tread_bench.core.describe.data_sources import DataOptions
from tread_bench.core.errors import UserError
from tread_bench.core.problems import Place, SuiteError, validation_problems
from tread_bench.suite.files import Look
from tread_bench.suite.load import DATA_ROOT, Roots, absolute_value, find_suite, load_plan
from tread_bench.suite.yaml import read_value


class _Settings(Model):
    data: DataChoice


def data_of(source: str, overrides: Sequence[str] = (), data_root: Path | None = None) -> DataOptions:
    """Return the data of a suite, or those that `source` itself describes: "{name: parquet, ...}". Raises UserError."""
    if not is_settings(source):
        return data_of_suite(source, overrides, data_root)
    if overrides:
        raise UserError(f"--set {overrides[0]}: changes a suite; write the value into the settings {source}")
    value = read_value(source, source)
    if DATA_ROOT in source:
        value = absolute_value(("data",), value, Roots(Path.cwd(), data_root or Path.cwd()))
    try:
        return _Settings.model_validate({"data": value}).data
    except ValidationError as error:
        problems = validation_problems(error, _Settings)
        raise SuiteError(replace(one, loc=(), place=Place(source)) for one in problems) from None


def is_settings(source: str) -> bool:
    """Return whether a text is settings as a suite writes them, not the name of something."""
    return source.lstrip().startswith("{")


def data_of_suite(suite: str, overrides: Sequence[str], data_root: Path | None = None) -> DataOptions:
    """Return the data of a suite's cells, without what its metrics need. Raises UserError where they differ."""
    without_network = [*overrides, "metrics.generate=false"]
    plan = load_plan(find_suite(suite), without_network, data_root=data_root, look=Look.HEADERS)
    choices = {cell.cell.data.model_dump_json(): cell.cell.data for cell in plan.cells}
    if len(choices) > 1:
        raise UserError(f"{suite} uses {len(choices)} data sources, and this takes one: choose it with --set")
    return next(iter(choices.values()))
