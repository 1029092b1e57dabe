"""The checks of plug-ins, called with a name."""

from __future__ import annotations

import pytest

from tread_bench import contract


@pytest.mark.parametrize(
    ("check", "name"),
    [
        (contract.check_method, "tread"),
    ],
)
def test_a_plug_in_is_checked_by_its_name_and_an_unknown_one_is_refused(check, name):
    assert check(name) == []
    with pytest.raises(ValueError, match=rf"unknown \w+ '{name}x'; did you mean '{name}'"):
        check(f"{name}x")
