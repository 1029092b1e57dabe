from __future__ import annotations

import json
from xml.etree import ElementTree

from tread_bench.regression.baseline.findings import Finding, Verdict
from tread_bench.regression.baseline.outputs import as_json, headline, junit, markdown

HOSTILE = '<script>alert(1)</script> | a\nb ]]> & "quoted" \x00 `code`'
FINDINGS = [
    Finding("row seed 0", "exact", "params", Verdict.FAIL, "10", "11", HOSTILE),
    Finding("row seed 0", "quality", "fid", Verdict.INCONCLUSIVE, "8", "9", "one seed"),
    Finding("row", "speed", "step time", Verdict.PASS, "5 ms", "5 ms"),
]


def test_junit_counts_what_failed_and_what_could_not_be_told():
    root = ElementTree.fromstring(junit(FINDINGS, HOSTILE))
    first, second = root.findall("testsuite")
    assert [first.get(key) for key in ("tests", "failures", "skipped")] == ["2", "1", "1"]
    assert [second.get(key) for key in ("tests", "failures", "skipped")] == ["1", "0", "0"]
    assert "<script>" in first.find("testcase/failure").get("message")


def test_markdown_shows_what_did_not_pass_as_text_and_folds_what_did():
    text = markdown(FINDINGS, HOSTILE)
    told, _, folded = text.partition("<details><summary>1 passed</summary>\n\n")
    assert (told.count("\n| row"), folded.count("\n| row")) == (2, 1)
    assert "step time" not in told and "step time" in folded
    rows = [line for line in text.splitlines() if line.startswith("| row")]
    assert "<script>" not in text and "\\<script\\>" in text
    assert all(row.replace("\\|", "").count("|") == 7 for row in rows)


def test_json_holds_every_finding_and_the_status():
    found = json.loads(as_json(FINDINGS, "s", 1))
    assert found["exit_status"] == 1
    assert [finding["verdict"] for finding in found["findings"]] == ["fail", "inconclusive", "pass"]


def test_the_headline_has_the_worst_first():
    assert headline(FINDINGS) == "1 fail, 1 inconclusive, 1 pass"
