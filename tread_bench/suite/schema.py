"""The JSON Schema of a suite file, for editors."""

from __future__ import annotations

from typing import Any

from tread_bench.core.config.suite import ROW_NAME, Cell, Suite
from tread_bench.core.describe.selectors import selectors


def json_schema() -> dict[str, Any]:
    """Return a suite file's schema (draft 2020-12); base, rows and overrides hold keys of a cell, nested or dotted."""
    suite, cell = Suite.model_json_schema(), Cell.model_json_schema()
    parts = {**cell.pop("$defs"), "Cell": cell}
    cell["properties"]["selector"]["enum"] = list(selectors())
    cell["patternProperties"] = {r"\.": {"description": "dotted key of a cell"}}
    for part in parts.values():
        part.pop("required", None)  # another layer may give it
    reference = {"$ref": "#/$defs/Cell"}
    properties = suite["properties"]
    for name in ("base", "overrides"):
        properties[name] = {"description": properties[name]["description"], **reference}
    parts["Row"] = {**cell, "properties": {**cell["properties"], "matrix": properties["matrix"]}}
    properties["rows"]["patternProperties"] = {ROW_NAME: {"anyOf": [{"$ref": "#/$defs/Row"}, {"type": "null"}]}}
    properties["rows"]["additionalProperties"] = False
    definitions = {**suite.pop("$defs"), **parts}
    schema: dict[str, Any] = _plain({**suite, "$defs": definitions})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _plain(schema: Any) -> Any:
    """The schema without titles, and with `anyOf` for tagged unions, since a part without its tag may fit several."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key not in ("title", "discriminator")}
    return {"anyOf" if key == "oneOf" else key: _plain(value) for key, value in kept.items()}
