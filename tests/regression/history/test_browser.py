"""The page of a history in a real browser."""

from __future__ import annotations

import pytest
from synthetic_runs import two_changes, write_history

from tests.browser_view import DESKTOP, PHONE, fits
from tread_bench.regression.history.runs import LeftOut, read_runs
from tread_bench.regression.history.series import series_of
from tread_bench.reports.page.history import render


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("history")
    runs, _ = read_runs(write_history(root / "runs", 30, two_changes))
    (root / "out").mkdir()
    render(runs, series_of(runs), [LeftOut(root / "none", f"{root / 'none'} is not a run folder")], root / "out")
    return (root / "out" / "index.html").as_uri()


def test_it_opens_without_errors_and_sorts_by_keyboard(browser, page):
    from selenium.webdriver.common.keys import Keys

    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(page)
    assert browser.get_log("browser") == []
    keys = "return [...document.querySelector('tbody').rows].map(row => row.cells[0].dataset.key)"
    assert browser.execute_script(keys) == ["2:8", "dense"]  # the newest first
    (change,) = (b for b in browser.find_elements("css selector", "thead th > button") if b.text.startswith("Change"))
    change.send_keys(Keys.ENTER)
    assert browser.execute_script(keys) == ["dense", "2:8"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, axe_violations, page, scheme):
    browser.get(page)
    assert axe_violations(browser, scheme) == []


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_page_does_not_scroll_sideways(browser, page, width):
    browser.get(page)
    assert fits(browser, width)
