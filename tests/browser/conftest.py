# SPDX-License-Identifier: Apache-2.0
"""A real headless Chromium for the page of ``specgrid report``.

Without Chromium, its driver, Selenium, axe-core or matplotlib the tests are skipped
in one loud line; SPECGRID_REQUIRE_BROWSER=1 makes that a failure.
SPECGRID_SCREENSHOTS names a folder for pictures to look at.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.metadata
import importlib.util
import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specgrid.cli import run

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PROGRAMS = {"chromium": "chromium", "chromedriver": "chromium-driver"}
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def _axe_script() -> Path | None:
    """axe-core as a package of Python's index carries it; no Playwright is used."""
    try:
        files = importlib.metadata.files("axe-playwright-python") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [f for f in files if f.name == "axe.min.js"]
    return Path(str(found[0].locate())) if found else None


def _missing() -> list[str]:
    absent = [p for p in PROGRAMS if shutil.which(p) is None]
    absent += [
        m for m in ("selenium", "matplotlib") if importlib.util.find_spec(m) is None
    ]
    if _axe_script() is None:
        absent.append("axe-playwright-python")
    return absent


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents]
    for item in mine:
        item.add_marker(pytest.mark.browser)
    absent = ", ".join(_missing()) if mine else ""
    if not absent or os.environ.get("SPECGRID_REQUIRE_BROWSER") == "1":
        return
    # One test stands for all, so that one line says that none was run.
    mine[0].add_marker(
        pytest.mark.skip(
            reason=f"THE PAGE IS NOT TESTED IN A BROWSER: no {absent} here; run "
            "sh .ci/browser-env.sh VENV"
        )
    )
    items[:] = [item for item in items if item not in mine[1:]]
    config.hook.pytest_deselected(items=mine[1:])


class Browser:
    """One Chromium window with what the tests ask of it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def command(self, name: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, arguments)

    def open(
        self,
        page: Path,
        width: int = 1280,
        theme: str = "light",
        script: bool = True,
        media: str = "screen",
    ) -> None:
        """Loads a page; ``problems`` and ``requests`` then start from it."""
        self.command("Emulation.setScriptExecutionDisabled", value=not script)
        self.command(
            "Emulation.setEmulatedMedia",
            media=media,
            features=[{"name": "prefers-color-scheme", "value": theme}],
        )
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(page.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        return str(
            self.run("return document.querySelector(arguments[0]).innerText", selector)
        )

    def problems(self) -> list[str]:
        """Console messages of any kind since ``open``."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses asked for since ``open``."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def axe(self) -> list[dict[str, Any]]:
        """Accessibility faults axe-core calls serious or critical."""
        script = _axe_script()
        assert script is not None
        # By the debugger, not by the page: its policy lets no other script run.
        self.command("Runtime.evaluate", expression=script.read_text("utf-8"))
        answer = self.command(
            "Runtime.evaluate",
            expression="axe.run().then(r => JSON.stringify(r.violations))",
            awaitPromise=True,
        )
        faults = json.loads(answer["result"]["value"])
        return [f for f in faults if f["impact"] in ("serious", "critical")]

    def shoot(self, name: str) -> None:
        folder = os.environ.get("SPECGRID_SCREENSHOTS")
        if not folder:
            return
        size = self.run(
            "const e = document.documentElement; return [e.clientWidth, e.scrollHeight]"
        )
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        shot = self.command(
            "Page.captureScreenshot", captureBeyondViewport=True, clip=clip
        )
        path = Path(folder) / f"{name}.png"
        path.write_bytes(base64.b64decode(shot["data"]))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert not _missing(), f"SPECGRID_REQUIRE_BROWSER=1, and there is no {_missing()}"
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    driver = webdriver.Chrome(options, Service(str(shutil.which("chromedriver"))))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


class Page:
    """A report: the file, and the JSON of the same run."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path = path
        self.document = document


@pytest.fixture(scope="session")
def make_page(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs ``specgrid report`` once for each different set of arguments."""
    made: dict[tuple[str, ...], Page] = {}
    folder = tmp_path_factory.mktemp("pages")

    def make(*arguments: str) -> Page:
        if arguments not in made:
            path = folder / f"{len(made)}.html"
            status, text = _output(["report", str(path), "--json", *arguments])
            assert status == 0
            made[arguments] = Page(path, json.loads(text))
        return made[arguments]

    return make


@pytest.fixture(scope="session")
def eagle3(make_page: Any) -> Page:
    """vLLM's documented Eagle3 schedule (vLLM #56136)."""
    page: Page = make_page("--config", str(EXAMPLES / "eagle3-schedule.yaml"))
    return page


@pytest.fixture(scope="session")
def everything(make_page: Any, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The Eagle3 schedule with a plan, a tuned schedule and a comparison."""
    folder = tmp_path_factory.mktemp("given")
    server = (
        *("--config", str(EXAMPLES / "eagle3-schedule.yaml")),
        *("--cudagraph-capture-sizes", "8", "32", "96", "160", "256"),
    )
    steps = ["batch,context,k,step_us"] + [
        f"{b},{c},{k},{6800 + 450 * k + 24 * b * (k + 1) + 0.0035 * b * c}"
        for b in (1, 4, 16, 64, 128, 256)
        for c in (512, 8192, 32768, 131072)
        for k in (0, 1, 3, 5)
        if not (c == 131072 and b > 64)
    ]
    (folder / "steps.csv").write_text("\n".join(steps) + "\n")
    (folder / "old.yaml").write_text(
        "max-num-seqs: 240\nmax-cudagraph-capture-size: 200\n"
    )
    log, table = str(EXAMPLES / "eagle3-256.log.gz"), str(folder / "steps.csv")
    rates = "0.76,0.54,0.39,0.28,0.21"
    # fmt: off
    plan = ["plan", "--json", "--frontier", "--log", log, "--graphs", "120",
            *server]
    tune = ["tune", "--json", "--latency", table, "--acceptance", rates,
            "--context-columns", "6", "--max-entries", "6", *server]
    # fmt: on
    for name, words in (("plan", plan), ("tuned", tune)):
        status, text = _output(words)
        assert status == 0
        (folder / f"{name}.json").write_text(text)
    page: Page = make_page(
        *server,
        *("--plan", str(folder / "plan.json"), "--tuned", str(folder / "tuned.json")),
        *("--compare", str(folder / "old.yaml")),
    )
    return page


def _output(words: list[str]) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = run(words)
    return status, out.getvalue()
