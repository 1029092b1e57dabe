"""What every stored document promises: numbers that JSON has, types as they are, and every mistake named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tread_bench.core.stored.documents import CellRequest, RunPlan
from tread_bench.core.stored.files import StoreError, read_document
from tread_bench.core.stored.records import Record

STORED = Path(__file__).parents[1] / "stored"
MODELS = {"record": Record, "plan": RunPlan, "cell": CellRequest}


@pytest.mark.parametrize("name", MODELS)
def test_a_document_is_read_as_it_was_written(name: str) -> None:
    path = STORED / f"{name}.json"
    document = read_document(path, MODELS[name])
    assert document is not None
    assert json.loads(document.model_dump_json(exclude_unset=True)) == json.loads(path.read_text())


@pytest.mark.parametrize("text", ["NaN", "-Infinity", '"\\ud800"', "[1,]", "", "[" * 1000])
def test_what_json_does_not_have_is_refused_where_anything_may_stand(text: str, tmp_path: Path) -> None:
    content = json.loads((STORED / "plan.json").read_text())
    written = json.dumps({**content, "hardware": {"free": "HERE"}}).replace('"HERE"', text)
    path = tmp_path / "plan.json"
    path.write_text(written)
    with pytest.raises(StoreError, match=r"plan.json cannot be read as JSON \(.* line 1 column"):
        read_document(path, RunPlan)


@pytest.mark.parametrize(("field", "value"), [("seed", "0"), ("seed", True), ("seed", 0.5), ("train_seconds", "1")])
def test_types_are_strict(field: str, value: object, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps({**json.loads((STORED / "record.json").read_text()), field: value}))
    with pytest.raises(StoreError, match=rf"record.json: {field}"):
        read_document(path, Record)


def test_a_record_of_an_older_version_is_read_without_what_is_gone() -> None:
    stored = json.loads((STORED / "record.json").read_text())
    last = stored["evaluations"][-1]
    widths = {"average_correlation": 0.99, "other_widths": [{"width": 0.1}], "other_scales": []}
    older = {**stored, "shared_iterations": 0, "evaluations": [*stored["evaluations"][:-1], {**last, **widths}]}
    assert Record.model_validate(older).model_dump() == Record.model_validate(stored).model_dump()
