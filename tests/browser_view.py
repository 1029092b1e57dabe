"""How an open page is shown: as wide as a desktop's window or a phone's, in a light or a dark scheme."""

from __future__ import annotations

from typing import Any

DESKTOP, PHONE = 1280, 390  # px


def set_scheme(browser: Any, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def set_width(browser: Any, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def fits(browser: Any, width: int) -> bool:
    """Whether the page, everything unfolded, needs no scrolling sideways."""
    set_width(browser, width)
    browser.execute_script("document.querySelectorAll('details').forEach(part => { part.open = true })")
    return browser.execute_script("return document.documentElement.scrollWidth") <= width
