"""The check of a method, called with a name."""

from __future__ import annotations

import pytest

from tread_bench.contract import check_method


def test_a_method_is_checked_by_its_name_and_an_unknown_one_is_refused():
    assert check_method("tread") == []
    with pytest.raises(ValueError, match="unknown method 'treadx'; did you mean 'tread'"):
        check_method("treadx")
