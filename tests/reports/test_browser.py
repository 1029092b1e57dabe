"""The page in a real browser: it asks the network for nothing, sorts by keyboard, follows the scheme, and fits."""

from __future__ import annotations

import json

import pytest
from synthetic_studies import STUDIES


@pytest.fixture
def opened(browser, run_dir):
    """The page, freshly loaded in the light scheme at 1280 px."""
    set_scheme(browser, "light")
    set_width(browser, 1280)
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get((run_dir / "index.html").as_uri())
    return browser


def set_scheme(browser, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def set_width(browser, width):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def rows(browser):
    keys = "[...document.querySelector('tbody').rows].map(row => row.cells[0].dataset.key)"
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
    assert rising[:2] == ["dense", "4:8@0.5"] and rising[-1] == "0:10@0.5" and rising != before
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


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_does_not_scroll_sideways(opened, width):
    set_width(opened, width)
    opened.execute_script("document.querySelectorAll('details').forEach(part => { part.open = true })")
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width


def test_a_link_to_a_cell_opens_it(opened, run_dir, records):
    opened.get(f"{(run_dir / 'index.html').as_uri()}#cell-{records[-1].cell}")
    row = opened.find_element("id", f"cell-{records[-1].cell}")
    assert row.is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened, axe_violations, scheme):
    assert axe_violations(opened, scheme) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_the_pages_of_the_studies_are_accessible_and_fit(browser, axe_violations, study_page, name):
    browser.get(study_page(name).as_uri())
    for scheme in ("light", "dark"):
        assert axe_violations(browser, scheme) == []
    for width in (1280, 390):
        set_width(browser, width)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
