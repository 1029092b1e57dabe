"""Damaged documents, Ctrl-C and odd machines: no traceback, the right exit status, and no file of anybody's lost."""

from __future__ import annotations

import os

import machines
import pytest
from attacks import attack_all, open_to_all
from documents import CASES, DOCUMENTS, Place
from interruptions import INTERRUPTIONS, OTHERS, Instants
from machines import MACHINES
from warm import Warms

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="looks at processes as Linux shows them")


@pytest.fixture(scope="module")
def place():
    """Run folders and what belongs to them, to be copied for every attack."""
    with open_to_all("attacks") as folder, Warms(len(os.sched_getaffinity(0))) as warms:
        yield Place(folder, warms)


QUICK = ("status", "plan", "check", "clean", "--export")  # commands that load no torch and draw nothing
FEW = ("done/plan.json", "done/cells/*/cell.json", "done/cells/*/record.json", "baseline.json", "toy.yaml")
ODD = ("an ASCII locale", "stdout is full", "a suite that cannot be read", "a plug-in that ends Python with status 0")


@pytest.fixture(scope="module")
def stored():
    """The same without a run: documents alone, and commands that load no torch."""
    with open_to_all("attacks") as folder, Warms(1, with_torch=False) as warms:
        yield Place(folder, warms, is_stored=True)


def test_some_damaged_documents_are_refused_or_read_and_cost_nothing(stored):
    numbers = [n for n, case in enumerate(CASES) if {*case.command[:3]} & {*QUICK} and case.document in FEW]
    tally = attack_all("documents.py", stored.attack, [n for n in numbers if "other.yaml" not in CASES[n].command])
    assert len(tally.tries) > 5 and not tally.faults, str(tally)


def test_some_interruptions_end_quietly_and_lose_nothing(stored):
    instants = Instants(stored, lengths={"plan toy.yaml": 1.0, "list backbones": 1.0})
    numbers = [n for n in range(1, 2 * len(OTHERS), 2) if " ".join(OTHERS[n // 2]) in instants.lengths]
    tally = attack_all("interruptions.py", instants.attack, numbers)
    assert len(tally.tries) > 1 and not tally.faults, str(tally)


def test_some_odd_machines_get_a_result_or_one_message(stored):
    numbers = [n for n, odd in enumerate(MACHINES) if odd.oddity in ODD and odd.command[0] in ("list", "plan")]
    tally = attack_all("machines.py", lambda number: machines.attack(stored, number), numbers)
    assert len(tally.tries) > 4 and not tally.faults, str(tally)


@pytest.mark.endurance
@pytest.mark.timeout(3600)
def test_2000_damaged_documents_are_refused_or_read_and_cost_nothing(place):
    tally = attack_all("documents.py", place.attack, range(DOCUMENTS))
    print(tally)
    assert not tally.faults, str(tally)


@pytest.mark.endurance
@pytest.mark.timeout(3600)
def test_200_interruptions_end_quietly_and_lose_nothing(place):
    tally = attack_all("interruptions.py", Instants(place).attack, range(INTERRUPTIONS))
    print(tally)
    assert not tally.faults, str(tally)


@pytest.mark.endurance
@pytest.mark.timeout(3600)
def test_odd_machines_get_a_result_or_one_message(place):
    tally = attack_all("machines.py", lambda number: machines.attack(place, number), range(len(MACHINES)))
    print(tally)
    assert not tally.faults, str(tally)
