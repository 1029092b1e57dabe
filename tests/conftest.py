"""What holds for every test: one thread, no network, no display, and no GPU test without a GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.leftovers import MARK, end_started, watch_this_process

CHECKOUT = Path(__file__).parents[1]
FIXED_ENVIRONMENT = {
    "COLUMNS": "120",  # width of tables
    "HF_HUB_OFFLINE": "1",
    "MPLBACKEND": "agg",
    "NO_COLOR": "1",
    "OMP_NUM_THREADS": "1",  # the number of threads changes float sums; torch reads it when it is imported
    "TZ": "UTC",
}
# Seconds of each test file, by what pytest's -m chooses. TREAD_BENCH_DURATIONS=1 has a whole run write its own.
DURATIONS = CHECKOUT / "tests" / "durations.json"
# Folders whose tests run in the mode of last_bit.py.
NUMERICAL = ("tests/backbones/", "tests/cell/", "tests/diffusion/", "tests/measure/", "tests/model/")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so do its children
os.environ.update(FIXED_ENVIRONMENT)  # here, before any test imports torch; processes that tests start inherit it
watch_this_process()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if on_gpu := [item for item in items if item.get_closest_marker("gpu")]:
        import torch

        for item in on_gpu:
            item.add_marker(pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))
    # The longest file begins first: no process is left alone with it at the end.
    seconds = json.loads(DURATIONS.read_text()).get(config.option.markexpr, {})
    items.sort(key=lambda item: seconds.get(_file(item.nodeid), 0), reverse=True)


class Durations:
    """Writes how long each test file has taken."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[_file(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        rounded = {file: round(seconds) for file, seconds in self.seconds.items()}
        recorded = json.loads(DURATIONS.read_text()) | {session.config.option.markexpr: rounded}
        DURATIONS.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("TREAD_BENCH_DURATIONS") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """With TREAD_BENCH_LAST_BIT, run numerical tests where different products of matrices have different last bits."""
    is_wanted = bool(os.environ.get("TREAD_BENCH_LAST_BIT")) and item.nodeid.startswith(NUMERICAL)
    if not is_wanted or item.get_closest_marker("plain_bits"):
        return (yield)
    from tests.last_bit import LastBit

    with LastBit():
        return (yield)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    # Cut off at its time limit, say: what it started has nobody who ends it. One that is skipped may start a browser.
    if call.excinfo and not call.excinfo.errisinstance(pytest.skip.Exception):
        end_started(**{MARK: os.environ[MARK], "PYTEST_CURRENT_TEST": f"{item.nodeid} ({call.when})"})


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    from tests.command_line import end_what_is_warm

    end_what_is_warm()


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the suite that is trained once in each process of the tests."""
    from tests.toy_suite import TOY, write_suite

    return write_suite(tmp_path_factory.mktemp("suite"), TOY)


@pytest.fixture(scope="session")
def finished_toy(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder of its undisturbed run, and what the command said."""
    from tests.toy_suite import finished_run

    folder = tmp_path_factory.mktemp("trained") / "toy"
    return folder, finished_run(toy, folder)


@pytest.fixture(scope="session")
def trained_toy(finished_toy: tuple[Path, subprocess.CompletedProcess[str]]) -> Path:
    """A finished run folder with records and page, to read: nobody changes it."""
    return finished_toy[0]


@pytest.fixture
def toy_run(trained_toy: Path, tmp_path: Path) -> Path:
    """A copy of it, to change."""
    return Path(shutil.copytree(trained_toy, tmp_path / "toy"))


@pytest.fixture(autouse=True)
def own_precision() -> Iterator[None]:
    """Commands that a test runs in its process set the precision of float32 products, as cells do: not for the next."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_float32_matmul_precision("highest")


@pytest.fixture
def mamba_ssm_oracle(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import a module of mamba-ssm anywhere: its package imports a CUDA extension that the references do not use."""
    found = importlib.util.find_spec("mamba_ssm")
    if found is None or not found.submodule_search_locations:
        pytest.skip("mamba-ssm is not installed: `tox` installs its Python part")
    pytest.importorskip("einops", reason="mamba-ssm needs einops")
    package = ModuleType("mamba_ssm")
    package.__path__ = list(found.submodule_search_locations)
    for name in [name for name in sys.modules if name.split(".")[0] == "mamba_ssm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mamba_ssm", package)
    monkeypatch.setitem(sys.modules, "selective_scan_cuda", ModuleType("selective_scan_cuda"))
    return lambda name: importlib.import_module(f"mamba_ssm.{name}")


@pytest.fixture(scope="session")
def shared_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium; skips where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no chromium with chromedriver on this machine")
    from tests.command_line import wait_for

    class Browser(webdriver.Chrome):  # type: ignore[name-defined, misc]
        def get(self, url: str) -> None:
            """Return once the page is complete: the driver itself may return while it is loading."""
            super().get(url)
            script = "return document.readyState === 'complete' && location.href.split('#')[0] === arguments[0]"
            wait_for(lambda: self.execute_script(script, url.partition("#")[0]), seconds=60)

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    quiet = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
    own = f"--user-data-dir={tmp_path_factory.mktemp('profile')}"
    for argument in (*quiet, "--disable-background-networking", own):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = Browser(options=options, service=webdriver.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture
def browser(shared_browser: Any) -> Any:
    """One for all tests, whatever the last of them left: as wide as a desktop's window, in the light scheme."""
    from tests.browser_view import DESKTOP, set_scheme, set_width

    set_scheme(shared_browser, "light")
    set_width(shared_browser, DESKTOP)
    return shared_browser


@pytest.fixture(scope="session")
def axe_violations() -> Callable[[Any, str], list[tuple[str, list[str]]]]:
    """Runs axe-core in an open page, everything unfolded, in a colour scheme; skips where there is no axe-core."""
    places = [os.environ.get("TREAD_BENCH_AXE", ""), CHECKOUT / "node_modules" / "axe-core" / "axe.min.js"]
    found = next((Path(place) for place in places if place and Path(place).is_file()), None)
    if found is None:
        pytest.skip("axe.min.js is neither in TREAD_BENCH_AXE nor in node_modules")
    axe = found.read_text(encoding="utf-8")

    def violations(browser: Any, scheme: str) -> list[tuple[str, list[str]]]:
        from tests.browser_view import set_scheme

        set_scheme(browser, scheme)
        browser.execute_script("document.querySelectorAll('details').forEach(part => { part.open = true })")
        browser.execute_script(axe)
        result = browser.execute_async_script("const done = arguments[0]; axe.run().then(r => done(r.violations))")
        return [(v["id"], [node["html"][:120] for node in v["nodes"]]) for v in result]

    return violations
