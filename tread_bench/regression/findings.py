"""What a comparison found: one entry per cell and figure, the exit status that follows, and JUnit XML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from xml.etree import ElementTree

_CONTROL = {code: None for code in range(32) if code not in (9, 10, 13)}  # XML 1.0 cannot represent these


class Verdict(StrEnum):
    """The verdict on one figure of one cell."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"  # too few seeds, too much noise, or a GPU that was not quiet
    SKIPPED = "not compared"  # the two were measured under conditions that are not comparable; neither is at fault


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure of a cell, the verdict on it and why; `accepted` and `measured` are texts for people."""

    cell: str
    kind: str  # presence, exact, speed, memory or quality
    figure: str
    verdict: Verdict
    accepted: str
    measured: str
    reason: str = ""


def exit_status(findings: Iterable[Finding]) -> int:
    """0: all passed; 1: something is worse; 3: nothing is known to be worse, and something is inconclusive."""
    verdicts = {finding.verdict for finding in findings}
    if Verdict.FAIL in verdicts:
        return 1
    return 3 if Verdict.INCONCLUSIVE in verdicts else 0


def junit(findings: Sequence[Finding], title: str) -> str:
    """Return JUnit XML with a suite per cell and a test case per finding, which come sorted by cell."""
    root = ElementTree.Element("testsuites", name=title.translate(_CONTROL))
    for cell, found in groupby(findings, key=lambda finding: finding.cell):
        part = ElementTree.SubElement(root, "testsuite", name=cell.translate(_CONTROL))
        for finding in found:
            case = ElementTree.SubElement(part, "testcase", classname=cell.translate(_CONTROL))
            case.set("name", f"{finding.kind}: {finding.figure}".translate(_CONTROL))
            if finding.verdict is not Verdict.PASS:
                text = f"{finding.verdict}: accepted {finding.accepted}, measured {finding.measured}; {finding.reason}"
                tag = "failure" if finding.verdict is Verdict.FAIL else "skipped"
                ElementTree.SubElement(case, tag, message=text.translate(_CONTROL))
        part.set("tests", str(len(part)))
        part.set("failures", str(len(part.findall("testcase/failure"))))
        part.set("skipped", str(len(part.findall("testcase/skipped"))))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
