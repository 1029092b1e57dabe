from __future__ import annotations

from xml.etree import ElementTree

from tread_bench.regression.compare import Finding, Verdict, to_junit

HOSTILE = '<script>alert(1)</script> | a\nb ]]> & "quoted" \x00 `code`'
FINDINGS = [
    Finding("row seed 0", "exact", "params", Verdict.FAIL, "10", "11", HOSTILE),
    Finding("row seed 0", "quality", "fid", Verdict.INCONCLUSIVE, "8", "9", "one seed"),
    Finding("row", "speed", "step time", Verdict.PASS, "5 ms", "5 ms"),
]


def test_junit_counts_what_failed_and_what_is_inconclusive():
    root = ElementTree.fromstring(to_junit(FINDINGS, HOSTILE))
    first, second = root.findall("testsuite")
    assert [first.get(key) for key in ("tests", "failures", "skipped")] == ["2", "1", "1"]
    assert [second.get(key) for key in ("tests", "failures", "skipped")] == ["1", "0", "0"]
    assert "<script>" in first.find("testcase/failure").get("message")
