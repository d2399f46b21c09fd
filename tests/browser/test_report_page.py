# SPDX-License-Identifier: Apache-2.0
"""The page of ``specgrid report`` in a real browser."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from specgrid import GraphSet, capture_sizes
from specgrid.cli._report.bound import FORMATS, Bound
from specgrid.cli._report.words import describe

from .conftest import EXAMPLES, Browser, Page

ALL = sorted(p for p in EXAMPLES.iterdir() if p.suffix in (".yaml", ".sh"))
EAGLE3_ROWS = [(1, 16, 5), (17, 32, 4), (33, 64, 3), (65, 128, 1), (129, 512, 0)]


def visible_map(browser: Browser) -> dict[str, float]:
    """The drawn map's axes on the screen, in pixels."""
    found = browser.run(
        """
        for (const svg of document.querySelectorAll("#map svg")) {
          if (!svg.getClientRects().length) continue;
          svg.scrollIntoView({block: "center"});
          const b = svg.getBoundingClientRect();
          const [x0, x1, y0, y1] = svg.dataset.axes.split(" ").map(Number);
          return {left: b.left + x0 * b.width, right: b.left + x1 * b.width,
                  top: b.top + y0 * b.height, bottom: b.top + y1 * b.height};
        }"""
    )
    assert isinstance(found, dict)
    return found


def hover(browser: Browser, page: Page, batch: int, query_len: int) -> str:
    """Moves the mouse to a cell of the map and returns what the page says."""
    box = visible_map(browser)
    rows = page.document["coverage"]["map"]["rows"]
    y = [r["query_len"] for r in rows].index(query_len)
    widest = page.document["coverage"]["map"]["widest"]
    browser.command(
        "Input.dispatchMouseEvent",
        type="mouseMoved",
        x=box["left"] + (box["right"] - box["left"]) * (batch - 0.5) / widest,
        y=box["bottom"] - (box["bottom"] - box["top"]) * (y + 0.5) / len(rows),
    )
    return browser.text("#readout")


def press(browser: Browser, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser.driver, duration=0).send_keys(*keys).perform()


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.name)
@pytest.mark.parametrize("width", [390, 1280])
def test_every_example_opens_in_silence_and_asks_the_network_for_nothing(
    path: Path, width: int, browser: Browser, make_page: Any
) -> None:
    page = make_page("--config", str(path))
    browser.open(page.path, width)
    assert browser.problems() == []
    assert {re.sub(r":.*", "", a) for a in browser.requests()} <= {"file", "data"}
    assert browser.text("h1") == page.document["headline"]["sentence"]
    browser.shoot(f"{path.stem}-{width}")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_with_plan_schedule_and_comparison_holds_what_others_hold(
    theme: str, width: int, browser: Browser, everything: Page
) -> None:
    browser.open(everything.path, width, theme)
    assert browser.problems() == []
    assert {re.sub(r":.*", "", a) for a in browser.requests()} <= {"file", "data"}
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert everything.path.stat().st_size < 1_000_000
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.shoot(f"everything-{theme}-{width}")
    faults = browser.axe()
    assert [(f["id"], [n["html"] for n in f["nodes"]][:3]) for f in faults] == []
    headings = browser.run(
        "return [...document.querySelectorAll('main h2')].map(h => h.innerText)"
    )
    assert {
        "What the plan does for the load",
        "How many graphs are enough",
        "What each size is worth",
        "The schedule tuned from measurements",
        "What the few entries give away",
        "What it gains",
        "Throughput by batch",
        "What changes from old.yaml",
    } <= set(headings)
    load = browser.text(".figures")
    assert "steps on a FULL graph, by load" in load


def test_cells_nobody_measured_are_hatched(browser: Browser, everything: Page) -> None:
    browser.open(everything.path)
    measured = everything.document["tuned"]["grid"]["measured"]
    blank = sum(not cell for row in measured for cell in row)
    hatched = browser.run(
        "return [...document.querySelectorAll('svg.wide [style*=\"url(\"]')]"
        ".filter(p => getComputedStyle(p).fill.startsWith('url')).length"
    )
    assert blank > 0
    assert hatched == 2 * blank, "once in the map of K, once in that of losses"


def test_the_documented_eagle3_schedule_has_its_known_headline(
    browser: Browser, eagle3: Page
) -> None:
    browser.open(eagle3.path)  # vLLM #56136
    assert browser.text("h1") == "86 of 256 decode batches lose their graph."
    figures = browser.text(".figures").replace("\n", " ")
    assert "batches without a FULL graph 86 → 0" in figures
    assert "FULL graphs captured 242 → 71" in figures
    assert "graphs no batch can use 171 → 0" in figures


@pytest.mark.parametrize("width", [320, 390, 700, 705, 1000, 1920])
@pytest.mark.parametrize("media", ["screen", "print"])
def test_nothing_is_wider_than_the_window(
    width: int, media: str, browser: Browser, eagle3: Page
) -> None:
    browser.open(eagle3.path, width, media=media)
    if media == "screen":
        wide = browser.run("return document.documentElement.scrollWidth")
        assert wide <= width
    shown = browser.run(
        "return [...document.querySelectorAll('svg')]"
        ".filter(s => s.getClientRects().length).map(s => s.getAttribute('class'))"
    )
    assert len(set(shown)) == 1, "one drawing of each chart is shown"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_no_serious_accessibility_fault(
    theme: str, width: int, browser: Browser, make_page: Any, eagle3: Page
) -> None:
    context = make_page("--config", str(EXAMPLES / "context-schedule.yaml"))
    for page in (eagle3, context):
        browser.open(page.path, width, theme)
        browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        faults = browser.axe()
        assert [(f["id"], [n["html"] for n in f["nodes"]][:3]) for f in faults] == []


@pytest.mark.parametrize("width", [390, 1280])
def test_hovering_a_hidden_batch_names_its_graph_and_what_hides_it(
    width: int, browser: Browser, eagle3: Page
) -> None:
    sizes = capture_sizes(256, 5, EAGLE3_ROWS)
    graphs = GraphSet(
        sizes, max_num_seqs=256, num_speculative_tokens=5, schedule=EAGLE3_ROWS
    )
    browser.open(eagle3.path, width)
    for batch, query_len in ((9, 6), (130, 1), (25, 5)):
        served = graphs.explain(batch, query_len)
        assert served.own is not None
        assert served.hidden_by is not None
        text = hover(browser, eagle3, batch, query_len)
        assert text.startswith(f"Batch {batch}, query length {query_len}: ")
        assert f"PIECEWISE graph of {served.graph.num_tokens} tokens" in text
        assert f"{served.padding} of them padding" in text
        assert f"Its own FULL graph ({served.own.num_tokens} tokens)" in text
        assert (
            f"hidden by the {served.hidden_by.num_tokens}-token graph of query length "
            f"{served.hidden_by.query_len}." in text
        )


def test_the_keyboard_reads_every_batch_as_the_mouse_does(
    browser: Browser, eagle3: Page
) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open(eagle3.path)
    browser.run("document.getElementById('map').focus()")
    press(browser, Keys.HOME)
    rows = eagle3.document["coverage"]["map"]["rows"]
    for batch in range(1, 257):
        row = next(r for r in rows if any(lo <= batch <= hi for lo, hi in r["decoded"]))
        assert browser.text("#readout") == "".join(describe(row, batch)), batch
        press(browser, Keys.ARROW_RIGHT)


def test_page_down_visits_every_missed_batch(browser: Browser, eagle3: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open(eagle3.path)
    browser.run("document.getElementById('map').focus()")
    press(browser, Keys.HOME)
    seen = set()
    for _ in range(90):
        press(browser, Keys.PAGE_DOWN)
        match = re.match(r"Batch (\d+)", browser.text("#readout"))
        assert match is not None
        seen.add(int(match[1]))
    missed = [lo_hi for t in eagle3.document["explain"]["tiers"]
              for lo_hi in t["missed"]]  # fmt: skip
    assert seen == {b for lo, hi in missed for b in range(lo, hi + 1)}
    press(browser, Keys.PAGE_UP, Keys.ARROW_UP, Keys.ARROW_DOWN, Keys.END)
    assert browser.text("#readout").startswith("Batch 256, query length 1")


def test_copy_puts_the_flags_on_the_clipboard(browser: Browser, eagle3: Page) -> None:
    browser.open(eagle3.path)
    browser.command(
        "Browser.grantPermissions",
        permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
    )
    browser.driver.find_element("css selector", ".paste button").click()
    for _ in range(50):
        if browser.text(".paste button") == "Copied":
            break
        time.sleep(0.02)
    copied = browser.driver.execute_async_script(
        "navigator.clipboard.readText().then(arguments[0], e => arguments[0](`${e}`))"
    )
    assert shlex.split(copied) == [
        "--additional-config",
        '{"specgrid": {"policy": "reachable"}}',
    ]
    assert copied == " \\\n".join(eagle3.document["fixes"][0]["flags"])


def test_copy_works_where_the_clipboard_is_forbidden(
    browser: Browser, eagle3: Page
) -> None:
    browser.open(eagle3.path)
    browser.run(
        "navigator.clipboard.writeText = () => Promise.reject(new Error('no'));"
        "document.addEventListener('copy', () => {"
        "  window.copied = document.activeElement.value; }, {once: true});"
    )
    browser.driver.find_element("css selector", ".paste button").click()
    time.sleep(0.1)
    assert browser.text(".paste button") == "Copied"
    assert browser.run("return window.copied").startswith("--additional-config")


def test_everything_but_hover_and_copy_is_there_without_javascript(
    browser: Browser, eagle3: Page
) -> None:
    browser.open(eagle3.path, script=False)
    tree = browser.command("DOM.getDocument", depth=0)["root"]["nodeId"]

    def count(selector: str) -> int:
        found = browser.command("DOM.querySelectorAll", nodeId=tree, selector=selector)
        return len(found["nodeIds"])

    snapshot = browser.command("DOMSnapshot.captureSnapshot", computedStyles=[])
    texts = " ".join(
        snapshot["strings"][i]
        for i in snapshot["documents"][0]["layout"]["text"]
        if i >= 0
    )
    assert "86 of 256 decode batches lose" in texts
    assert "Batch 5, query length 6" in texts
    assert "--additional-config" in texts
    assert "Copy" not in texts
    assert "Page Down" not in texts
    assert count("svg.wide") == 4
    browser.command("Emulation.setScriptExecutionDisabled", value=False)


def test_every_bound_number_is_the_json_number(
    browser: Browser, everything: Page
) -> None:
    browser.open(everything.path)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    found = browser.run(
        "return [...document.querySelectorAll('[data-from]')]"
        ".map(e => [e.dataset.from, e.dataset.as, e.innerText])"
    )
    assert len(found) > 200
    json_ = Bound(everything.document)
    for path, as_, text in found:
        value = json_.at(path)
        assert text == ("–" if value is None else FORMATS[as_](value)), path


def test_both_themes_and_print_use_their_own_colours(
    browser: Browser, eagle3: Page
) -> None:
    script = "return getComputedStyle(document.body).backgroundColor"
    fill = (
        "return getComputedStyle([...document.querySelectorAll('#map svg path')]"
        ".find(p => p.getAttribute('style').includes('--hidden)'))).fill"
    )
    seen = {}
    for theme, media in (("light", "screen"), ("dark", "screen"), ("dark", "print")):
        browser.open(eagle3.path, theme=theme, media=media)
        seen[theme, media] = (browser.run(script), browser.run(fill))
        browser.shoot(f"eagle3-{theme}-{media}")
    assert seen["light", "screen"] == ("rgb(253, 252, 250)", "rgb(194, 65, 12)")
    assert seen["dark", "screen"] == ("rgb(21, 24, 27)", "rgb(255, 125, 77)")
    assert seen["dark", "print"] == ("rgb(255, 255, 255)", "rgb(194, 65, 12)")


def test_it_prints_on_few_pages_with_the_details_open(
    browser: Browser, eagle3: Page
) -> None:
    import base64
    import os

    browser.open(eagle3.path, media="")
    pdf = base64.b64decode(browser.command("Page.printToPDF", paperWidth=8.27,
                                           paperHeight=11.69)["data"])  # fmt: skip
    folder = os.environ.get("SPECGRID_SCREENSHOTS")
    if folder:
        (Path(folder) / "eagle3.pdf").write_bytes(pdf)
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 3 <= pages <= 9
    browser.open(eagle3.path, media="print")
    row = "return document.querySelector('details td').getBoundingClientRect().height"
    assert browser.run(row) > 0


def test_65536_requests_open_smoothly_and_the_only_miss_is_seen(
    browser: Browser, make_page: Any
) -> None:
    # Batch 5,001 has 10,002 tokens; the nearest graph, 10,003, is of the other length.
    page = make_page(
        "--max-num-seqs", "65536", "--num-speculative-tokens", "1",
        "--schedule", "[[1,30000,1],[30001,65536,0]]",
        "--max-num-batched-tokens", "131072",
        "--cudagraph-capture-sizes", "10000", "10003", "65536",
    )  # fmt: skip
    started = time.monotonic()
    browser.open(page.path)
    assert time.monotonic() - started < 5
    assert page.path.stat().st_size < 1_000_000
    assert browser.text("#readout").startswith("Batch 5,001, query length 2: 10,002")
    frames = browser.driver.execute_async_script(
        """
        const done = arguments[0], map = document.getElementById("map");
        const box = map.getBoundingClientRect(), start = performance.now();
        let n = 0;
        const step = () => {
          map.dispatchEvent(new PointerEvent("pointermove", {
            clientX: box.left + 40 + n * 2, clientY: box.top + box.height / 2}));
          if (++n === 300) done((performance.now() - start) / n);
          else if (n % 50) step(); else setTimeout(step);
        };
        step();"""
    )
    assert frames < 16, "milliseconds a move"
    assert browser.text("h1") == "1 of 65,536 decode batches loses its graph."
    seen = browser.run(
        "return [...document.querySelectorAll('#map svg path')]"
        ".filter(p => p.getAttribute('style').includes('--hidden)'))"
        ".map(p => p.getBoundingClientRect().width)"
    )
    assert max(seen) >= 0.99, "pixels"


def test_markup_in_names_stays_text(
    browser: Browser, make_page: Any, tmp_path: Path
) -> None:
    evil = "<img src=x onerror=document.title='owned'>&amp;</script><script>x</script>"
    config = tmp_path / "<b>&evil'.yaml"
    config.write_text("max-num-seqs: 8\nmodel: '" + evil.replace("'", "''") + "'\n")
    page = make_page("--config", str(config))
    browser.open(page.path)
    assert browser.problems() == []
    assert browser.run("return document.images.length") == 0
    assert browser.run("return document.scripts.length") == 2
    assert browser.text(".kicker b") == evil
    assert browser.run("return document.title") == f"{evil} · specgrid"
    assert config.name in browser.text(".settings")
    assert browser.run("return document.querySelectorAll('.settings b').length") == 0
