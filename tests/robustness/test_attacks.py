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


QUICK = ("status", "list", "plan", "check", "clean")  # commands that load no torch and draw nothing


def test_some_damaged_documents_are_refused_or_read_and_cost_nothing(place):
    numbers = [number for number, case in enumerate(CASES) if case.command[0] in QUICK]
    tally = attack_all("documents.py", place.attack, numbers)
    assert not tally.faults, tally


def test_some_interruptions_end_quietly_and_lose_nothing(place):
    quick = [number for number in range(1, 2 * len(OTHERS), 2) if OTHERS[number // 2][0] in ("plan", "list")]
    tally = attack_all("interruptions.py", Instants(place).attack, [0, *quick])
    assert not tally.faults, tally


def test_some_odd_machines_get_a_result_or_one_message(place):
    numbers = [number for number, machine in enumerate(MACHINES) if machine.command[0] in ("list", "plan")]
    tally = attack_all("machines.py", lambda number: machines.attack(place, number), numbers)
    assert not tally.faults, tally


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_2000_damaged_documents_are_refused_or_read_and_cost_nothing(place):
    tally = attack_all("documents.py", place.attack, range(DOCUMENTS))
    print(tally)
    assert not tally.faults


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_200_interruptions_end_quietly_and_lose_nothing(place):
    tally = attack_all("interruptions.py", Instants(place).attack, range(INTERRUPTIONS))
    print(tally)
    assert not tally.faults


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_odd_machines_get_a_result_or_one_message(place):
    tally = attack_all("machines.py", lambda number: machines.attack(place, number), range(len(MACHINES)))
    print(tally)
    assert not tally.faults
