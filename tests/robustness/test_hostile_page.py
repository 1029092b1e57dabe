"""Hostile texts in every field that reaches the report: nothing of theirs runs, and the page stays accessible."""

from __future__ import annotations

import csv
import json

import pytest

from tests.reports.synthetic_records import NOTHING_MEASURED, record, render, write_samples
from tread_bench.core.stored.conditions import Conditions
from tread_bench.reports.figures.pictures import pictures
from tread_bench.reports.frame import results_frame, write_csv

RUN = "window.pwned = 1; document.title = 'pwned'"
PAYLOADS = (
    f"<script>{RUN}</script>",
    f'\'><svg onload="{RUN}">',
    f"javascript:{RUN}//",
    f"</style></script></title></desc></svg></textarea><script>{RUN}</script>",
    f'" onmouseover="{RUN}" autofocus onfocus="{RUN}" x="',
    f"&lt;script&gt;{RUN}&lt;/script&gt; &#60;script&#62;{RUN}&#60;/script&#62;",
    "{{ 7 * 7 }}{% include 'page.js' %}${window.pwned = 1}",
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe\N{LEFT-TO-RIGHT ISOLATE}",
    "w" * 500,
    "\0\x07\x1b[31m\x7f\ud800\ufffe",
    "=1+1 $\\frac{1}{0}$ _hidden\n\t\r.",
)
CHOSEN = {"device", "matmul_precision", "autocast"}  # one of a few words
KEPT = {"status", "routes", "memory_kind", "schema_version", "role"}  # no free text


def hostile(value, keys_too=False):
    """The value with all payloads in front of every text: in an order of its own, since a page may cut it short."""
    if isinstance(value, str):
        first = sum(map(ord, value)) % len(PAYLOADS)
        return " ".join([*PAYLOADS[first:], *PAYLOADS[:first], value])
    if isinstance(value, dict):
        return {hostile(key) if keys_too else key: hostile(item, keys_too) for key, item in value.items()}
    return [hostile(item, keys_too) for item in value] if isinstance(value, list) else value


def stored(value):
    """The value as it may stand in a document, where half a surrogate pair is refused."""
    return json.loads(json.dumps(value).replace("\\ud800", ""))


def hostile_conditions(conditions):
    """Every text that no rule of theirs forbids, among them keys of a later version."""
    written = conditions.model_dump(mode="json")
    free = {name: value for name, value in written.items() if name not in CHOSEN}
    return Conditions(**stored(hostile(written, keys_too=True) | written | hostile(free)))


def hostile_record(one):
    """Every text of a record, its evaluations' too."""
    fields = {name: getattr(one, name) for name in type(one).model_fields}
    texts = {n: stored(hostile(v)) for n, v in fields.items() if n not in KEPT and isinstance(v, str | dict)}
    texts["conditions"] = hostile_conditions(one.conditions)
    texts["evaluations"] = []
    for evaluation in one.evaluations:
        details = {**hostile(evaluation.protocol_details, True), "caution": hostile("caution")}
        own = {"protocol": hostile(evaluation.protocol), "protocol_details": details}
        own |= {"samples": hostile(evaluation.samples), "captions": hostile(["a caption", "another one"])}
        texts["evaluations"].append(evaluation.model_copy(update=stored(own)))
    return one.model_copy(update=texts)


def hostile_plan(records):
    plan = {
        "suite": {"name": "study", "description": "What it is about."},
        "cells": [*(one.cell for one in records), "missing"],
        "git": {"commit": "0123abc", "changed": False, "branch": "main"},
        "numerics": {"device_name": "Example CPU"},
        "versions": {"python": "3.11.9"},
    }
    fixed = ("suite", "git", "numerics")  # whose keys are known
    plan = {key: hostile(value, keys_too=key not in fixed) for key, value in plan.items()}
    plan["numerics"] |= {"device": "cpu", "threads": 1}
    return stored({**plan, hostile("note"): hostile("noted")})


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A rendered run of two architectures whose texts are all hostile."""
    folder = tmp_path_factory.mktemp("run")
    rows = (("dense", "", 16.9), ("early", "0:8@0.5", 27.3), ("late", "2:8@0.5", 18.6))
    made = [record(row, routes, seed, fid) for row, routes, fid in rows for seed in range(2)]
    made += [record("dense", "", 7, 16.0, backbone="U-ViT (depth 12)", family="U-ViT", cell="u")]
    made += [record("lost", "", 8, None, status="failed", reason="why", evaluations=[], timing=None, similarity=None)]
    records = [hostile_record(one) for one in made]
    render(records, hostile_plan(records), folder, pictures=pictures)
    return folder


@pytest.fixture
def opened(browser, run_dir):
    browser.get((run_dir / "index.html").as_uri())
    browser.execute_script("document.querySelectorAll('details').forEach(part => { part.open = true })")
    return browser


def pwned(browser):
    return browser.execute_script("return window.pwned === 1 || document.title === 'pwned'")


# The page


def test_no_payload_runs_or_becomes_markup(opened):
    found = opened.execute_script(
        """const all = [...document.querySelectorAll('*')];
        return {
            scripts: document.scripts.length,
            handlers: all.flatMap(e => [...e.attributes]).filter(a => a.name.startsWith('on')).length,
            links: [...document.querySelectorAll('[href], [src]')]
                .map(e => e.getAttribute('href') || e.getAttribute('src'))
                .filter(v => !v.startsWith('#') && !v.startsWith('data:image/png;base64,') && v !== 'data:,'),
            kinds: [...new Set(all.map(e => e.localName))].sort(),
        }"""
    )
    assert not pwned(opened)
    assert (found["scripts"], found["handlers"], found["links"]) == (1, 0, [])
    assert not {"iframe", "object", "embed", "textarea", "base"} & set(found["kinds"])
    assert [form.get_attribute("class") for form in opened.find_elements("css selector", "form")] in ([], ["filters"])
    for link in opened.find_elements("css selector", "a[href]"):
        opened.execute_script("arguments[0].click()", link)
    for header in opened.find_elements("css selector", "th > button"):
        opened.execute_script("arguments[0].click()", header)
    assert not pwned(opened)


# The files beside it


def lines_with(text, path):
    """The lines of a table with a record of that reason."""
    failed = record("dense", "", 0, None, status="failed", reason=text, **NOTHING_MEASURED)
    write_csv(results_frame([failed]), path)
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+cmd|' /C calc'!A0", "@SUM(1)", "\t=1"])
@pytest.mark.parametrize("more", ["", "\r\n=b", '","b', "\ud800", "\0"])
def test_a_text_stays_in_its_cell_of_the_table_and_is_text_to_a_spreadsheet(tmp_path, text, more):
    (line,) = lines_with(text + more, tmp_path / "a")
    assert line["reason"].startswith(f"'{text}") and line["seed"] == "0"


def test_samples_come_from_the_run_folder_whatever_a_record_says(tmp_path):
    names = ("../../secret.png", str(tmp_path / "secret.png"), "a\0b.png", "w" * 5000, "loop.png")
    write_samples([record("dense", "", 0, 17.0, cell="../../outside")], tmp_path / "run")
    assert (tmp_path / "outside").is_dir()
    (tmp_path / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n secret")
    records = [record("dense", "", 0, 17.0, cell="../../outside")]
    records += [record(f"row{i}", "", 0, 17.0, cell=f"cell{i}") for i, _ in enumerate(names)]
    for one, name in zip(records[1:], names, strict=True):
        one.evaluations[-1] = one.evaluations[-1].model_copy(update={"samples": name})
    (tmp_path / "run" / "cells" / "cell4").mkdir(parents=True)
    (tmp_path / "run" / "cells" / "cell4" / "loop.png").symlink_to("loop.png")
    render(records, {}, tmp_path / "run")
    page = (tmp_path / "run" / "index.html").read_text(encoding="utf-8")
    assert "<img" not in page and page.count("not found") == len(records)
