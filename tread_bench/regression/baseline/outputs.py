"""Findings for machines: JUnit XML, Markdown for a job summary, JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from xml.etree import ElementTree

from tread_bench.regression.baseline.findings import Finding, Verdict

_XML_TAG = {
    Verdict.FAIL: "failure",
    Verdict.INCONCLUSIVE: "skipped",
    Verdict.UNFIT: "skipped",
    Verdict.SKIPPED: "skipped",
}
_CONTROL = {code: None for code in range(32) if code not in (9, 10, 13)}  # XML 1.0 cannot represent these


def headline(findings: Sequence[Finding]) -> str:
    """`3 fail, 1 inconclusive, 40 pass`, the worst first."""
    counts = Counter(finding.verdict for finding in findings)
    order = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.UNFIT, Verdict.SKIPPED, Verdict.PASS)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in order if counts[verdict]) or "nothing to compare"


def junit(findings: Sequence[Finding], title: str) -> str:
    """Return a test case per finding, a test suite per cell."""
    root = ElementTree.Element("testsuites", name=_text(title))
    for cell, members in groupby(findings, key=lambda finding: finding.cell):
        own = list(members)
        counts = Counter(_XML_TAG.get(finding.verdict) for finding in own)
        part = ElementTree.SubElement(
            root, "testsuite", name=_text(cell), tests=str(len(own)), errors="0",
            failures=str(counts["failure"]), skipped=str(counts["skipped"]),
        )  # fmt: skip
        for finding in own:
            name = _text(f"{finding.kind}: {finding.figure}")
            case = ElementTree.SubElement(part, "testcase", classname=_text(cell), name=name)
            if tag := _XML_TAG.get(finding.verdict):
                ElementTree.SubElement(case, tag, message=_text(f"{finding.verdict}: {_line(finding)}"))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def markdown(findings: Sequence[Finding], title: str) -> str:
    """Under a heading, a table of everything that did not pass, and a folded table of what did."""
    lines = [f"## {_cell(title)}", "", headline(findings), ""]
    passed = [finding for finding in findings if finding.verdict is Verdict.PASS]
    others = [finding for finding in findings if finding.verdict is not Verdict.PASS]
    lines += _markdown_table(others)
    if passed:
        lines += [
            "",
            f"<details><summary>{len(passed)} passed</summary>",
            "",
            *_markdown_table(passed),
            "",
            "</details>",
        ]
    return "\n".join(lines) + "\n"


def _markdown_table(findings: Sequence[Finding]) -> list[str]:
    head = ["| cell | figure | verdict | accepted | measured | reason |", "|---|---|---|---|---|---|"]
    return [*head, *map(_markdown_row, findings)] if findings else []


def _markdown_row(f: Finding) -> str:
    texts = (f.cell, f"{f.kind}: {f.figure}", f.verdict, f.accepted, f.measured, f.reason)
    return f"| {' | '.join(map(_cell, texts))} |"


def as_json(findings: Sequence[Finding], suite: str, status: int) -> str:
    """Return every finding."""
    return json.dumps({"suite": suite, "exit_status": status, "findings": [asdict(f) for f in findings]}, indent=1)


def _line(finding: Finding) -> str:
    return f"accepted {finding.accepted}, measured {finding.measured}; {finding.reason}"


def _text(text: str) -> str:
    return text.translate(_CONTROL)


def _cell(text: str) -> str:
    """Text that stays inside its cell of a Markdown table and does not start markup or HTML."""
    escaped = "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!" else c for c in text)
    return " ".join(escaped.split())
