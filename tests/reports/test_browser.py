"""The page in a real browser: it asks the network for nothing, sorts by keyboard, follows the scheme, and fits."""

from __future__ import annotations

import json

import pytest
from synthetic_studies import STUDIES

from tests.browser_view import DESKTOP, PHONE, fits, set_scheme
from tests.command_line import wait_for

OF_ALL_KINDS = ("equal_cost", "guidance", "methods", "train_inference_gap")  # tables and pictures that others repeat


@pytest.fixture
def opened(browser, run_dir):
    """The page, freshly loaded."""
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get((run_dir / "index.html").as_uri())
    return browser


def rows(browser):
    keys = "[...document.querySelector('tr[id^=row-]').parentElement.rows].map(row => row.cells[0].dataset.key)"
    return browser.execute_script(f"return {keys}")


def test_it_opens_without_errors_and_without_the_network(opened):
    requested = [
        message["params"]["request"]["url"]
        for entry in opened.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []
    assert [url.rpartition("/")[2] for url in requested if url.startswith("file:")] == ["index.html"]
    assert opened.get_log("browser") == []


def test_the_table_sorts_by_keyboard(opened):
    from selenium.webdriver.common.keys import Keys

    before = rows(opened)
    button = opened.find_elements("css selector", "thead th > button")[2]
    assert button.text.startswith("FID")
    button.send_keys(Keys.ENTER)
    rising = rows(opened)
    assert rising[:2] == ["dense", "4:8"] and rising[-1] == "0:10" and rising != before
    header = button.find_element("xpath", "..")
    assert header.get_attribute("aria-sort") == "ascending"
    button.send_keys(Keys.SPACE)
    assert rows(opened) == rising[::-1] and header.get_attribute("aria-sort") == "descending"
    opened.find_elements("css selector", "thead th > button")[3].click()
    assert header.get_attribute("aria-sort") is None
    assert rows(opened)[-1] == "dense"  # it has no difference to itself: rows without a value go last


def test_the_scheme_changes_ground_and_pictures(opened):
    look = """const text = document.querySelector('svg text');
        return [getComputedStyle(document.body).backgroundColor, getComputedStyle(text).fill]"""
    light = opened.execute_script(look)
    set_scheme(opened, "dark")
    dark = opened.execute_script(look)
    assert light[0] == "rgb(255, 255, 255)" and all(a != b for a, b in zip(light, dark, strict=True))


def test_the_page_does_not_scroll_sideways(opened):
    assert fits(opened, DESKTOP) and fits(opened, PHONE)


def test_a_link_to_a_cell_opens_it(opened, run_dir, records):
    opened.get(f"{(run_dir / 'index.html').as_uri()}#cell-{records[-1].cell}")
    assert opened.find_element("id", f"cell-{records[-1].cell}").is_displayed()


def test_the_first_screen_holds_the_answer_its_price_its_certainty_and_a_picture(opened):
    parts = (".verdict .quality", ".terms > :nth-child(1)", ".terms > :nth-child(2)", ".lead-picture svg")
    *texts, picture = (opened.find_element("css selector", part) for part in parts)
    assert [part.text.partition("\n")[0] for part in texts[1:]] == ["Price", "Certainty"]
    assert max(part.rect["y"] + part.rect["height"] for part in texts) < 600 > picture.rect["y"]


def test_without_the_script_everything_is_there(browser, run_dir):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get((run_dir / "index.html").as_uri())
        assert browser.find_element("css selector", ".lead-picture svg").is_displayed()
        assert len(browser.find_elements("css selector", "tr[id^=cell-]")) == 35
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_what_a_phone_cuts_off_is_said_and_placement_is_not_cut_off(opened):
    set_width = {"width": PHONE, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", set_width)
    try:
        opened.refresh()
        script = """return [...document.querySelectorAll('.plot')].map(plot => [
            plot.scrollWidth > plot.clientWidth + 4,
            getComputedStyle(plot.nextElementSibling).display !== 'none'])"""
        wait_for(lambda: all(cut is said for cut, said in opened.execute_script(script)), seconds=20)
        shown = opened.execute_script(script)
        assert any(cut for cut, _ in shown)
        assert opened.execute_script("return document.querySelector('#route_placement ~ figure svg').clientWidth") < 720
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_tooltips_come_by_keyboard_and_by_pointer_and_go_with_escape(opened):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    tip = opened.find_element("id", "tip")
    button = opened.find_elements("css selector", "thead th > button")[2]
    opened.execute_script("arguments[0].focus()", button)
    assert tip.is_displayed() and tip.text == "mean over seeds"
    assert button.get_attribute("aria-describedby") == "tip"
    button.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed() and button.get_attribute("aria-describedby") is None
    ActionChains(opened).move_to_element(button).perform()
    assert tip.is_displayed() and tip.text == "mean over seeds"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened, axe_violations, scheme):
    assert axe_violations(opened, scheme) == []


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full if name in OF_ALL_KINDS else pytest.mark.endurance) for name in STUDIES],
)
def test_the_pages_of_the_studies_are_accessible_and_fit(browser, axe_violations, study_page, name):
    browser.get(study_page(name).as_uri())
    for scheme in ("light", "dark"):
        assert axe_violations(browser, scheme) == []
    assert fits(browser, DESKTOP) and fits(browser, PHONE)
