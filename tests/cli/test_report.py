# SPDX-License-Identifier: Apache-2.0
"""`specgrid report` and `--plot`: numbers equal the JSON, bad input is one line.

What only a browser can tell is in tests/browser.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from .conftest import Result

pytest.importorskip("matplotlib", reason="pictures need the extra `plot`")

from specgrid.cli._charts import bands, style
from specgrid.cli._report import section_plan
from specgrid.cli._report.bound import FORMATS, Bound
from specgrid.cli._report.theme import DARK

Run = Callable[..., Result]
EXAMPLES = Path(__file__).parents[2] / "examples"
EAGLE3 = ("--config", str(EXAMPLES / "eagle3-schedule.yaml"))
FEW_SIZES = (*EAGLE3, "--cudagraph-capture-sizes", "8", "64", "256")
ALL = sorted(p for p in EXAMPLES.iterdir() if p.suffix in (".yaml", ".sh"))
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Reader(HTMLParser):
    """Visible texts, and the texts of bound numbers, of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.stack: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.bound: list[tuple[str, str, str]] = []
        self.tags: dict[str, int] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag not in VOID:
            self.stack.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop()[0] == tag, "the page is well formed"

    def handle_data(self, data: str) -> None:
        if {t for t, _ in self.stack} & {"script", "style", "svg", "title"}:
            return
        where = self.stack[-1][1] if self.stack else {}
        if where.get("data-from"):
            self.bound.append((where["data-from"], where["data-as"], data))  # type: ignore[arg-type]
        else:
            self.texts.append(data)


@pytest.fixture
def report(specgrid: Run, tmp_path: Path) -> Callable[..., tuple[str, dict[str, Any]]]:
    def make(*arguments: str, status: int = 0) -> tuple[str, dict[str, Any]]:
        out = tmp_path / "page.html"
        result = specgrid("report", str(out), "--json", *arguments)
        assert (result.status, result.err) == (status, "")
        return out.read_text("utf-8"), json.loads(result.out)

    return make


def numbers(value: Any) -> Iterator[str]:
    """Every number in a JSON value, those inside its texts included."""
    if isinstance(value, dict):
        for part in value.values():
            yield from numbers(part)
    elif isinstance(value, list):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, str):
        yield from tokens(value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield f"{value:g}" if isinstance(value, float) else str(value)


def tokens(text: str) -> list[str]:
    return [t.replace(",", "") for t in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text)]


# -- the documented case -----------------------------------------------------------


def test_eagle3_headline(report: Any) -> None:
    page, found = report(*EAGLE3)  # vLLM #56136
    head = found["headline"]
    assert head["sentence"] == "86 of 256 decode batches lose their graph."
    assert (head["before"]["graphs"], head["after"]["graphs"]) == (242, 71)
    assert (head["before"]["missed"], head["after"]["missed"]) == (86, 0)
    assert (head["before"]["unused"], head["after"]["unused"]) == (171, 0)
    assert found["fixes"][0]["flags"] == [
        '--additional-config \'{"specgrid": {"policy": "reachable"}}\''
    ]
    assert "86 of 256 decode batches lose their graph." in page
    assert len(page.encode()) < 1_000_000


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.name)
def test_every_example_makes_a_page_whose_numbers_are_the_json_s(
    path: Path, report: Any
) -> None:
    page, found = report("--config", str(path))
    reader = Reader(page)
    assert reader.stack == []
    json_ = Bound(found)
    for where, as_, text in reader.bound:
        value = json_.at(where)
        assert text == ("–" if value is None else FORMATS[as_](value)), where
    # No other number is on the page: each stands in the JSON, alone or in a text.
    known = set(numbers(found))
    # Steps of the size list ("24-256 by 8") and counts of ranges are the JSON's lists.
    sizes = [s["tokens"] for s in found["explain"]["capture"]["sizes"]]
    known |= {str(b - a) for a, b in itertools.pairwise(sizes)}
    known |= {str(len(t["missed"] or [])) for t in found["explain"]["tiers"]}
    loose = [t for text in reader.texts for t in tokens(text) if t not in known]
    assert loose == []


def test_the_page_agrees_with_explain(specgrid: Run, report: Any) -> None:
    explained = json.loads(specgrid("explain", "--json", *EAGLE3).out)
    _, found = report(*EAGLE3)
    assert found["explain"] == explained


# -- plan, tuned schedule, comparison ------------------------------------------------


@pytest.fixture
def plan_file(specgrid: Run, tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    log = str(EXAMPLES / "workload.csv")
    # fmt: off
    result = specgrid("plan", "--json", "--frontier", "--log", log, "--graphs", "40",
                      "--no-stability", *FEW_SIZES)
    # fmt: on
    assert result.status == 0, result.err
    path.write_text(result.out)
    return path


@pytest.fixture
def tuned_file(specgrid: Run, tmp_path: Path) -> Path:
    steps = tmp_path / "steps.csv"
    lines = ["batch,context,k,step_us"] + [
        f"{b},{c},{k},{6800 + 450 * k + 24 * b * (k + 1) + 0.0035 * b * c}"
        for b in (1, 16, 64, 256)
        for c in (512, 8192, 131072)
        for k in (0, 3, 5)
        if not (c == 131072 and b == 256)
    ]
    steps.write_text("\n".join(lines) + "\n")
    path = tmp_path / "tuned.json"
    # fmt: off
    result = specgrid("tune", "--json", "--latency", str(steps), "--acceptance",
                      "0.76,0.54,0.39,0.28,0.21", "--context-columns", "3", *EAGLE3)
    # fmt: on
    assert result.status == 0, result.err
    path.write_text(result.out)
    return path


def test_plan_and_tuned_numbers_are_those_of_their_own_commands(
    report: Any, plan_file: Path, tuned_file: Path
) -> None:
    given = ("--plan", str(plan_file), "--tuned", str(tuned_file))
    page, found = report(*FEW_SIZES, *given)
    plan, tuned = (json.loads(p.read_text()) for p in (plan_file, tuned_file))
    for key in ("before", "default", "after", "worth", "frontier"):
        shown = found["plan"][key]
        if key == "frontier":
            shown = [{**p, "graph_bytes": 0, "graph_seconds": 0, "graphs": []}
                     for p in shown]  # fmt: skip
            plan[key] = [{**p, "graph_bytes": 0, "graph_seconds": 0, "graphs": []}
                         for p in plan[key]]  # fmt: skip
        if key == "worth":
            shown = [{"size": w["size"], "us": w["us"]} for w in shown]
        assert shown == plan[key], key
    for key in ("loss", "entries", "schedule", "grid", "throughput"):
        assert found["tuned"][key] == tuned[key], key
    reader = Reader(page)
    json_ = Bound(found)
    paths = {where for where, _, _ in reader.bound}
    for where, as_, text in reader.bound:
        value = json_.at(where)
        assert text == ("–" if value is None else FORMATS[as_](value)), where
    assert {"plan.after.mean_step_us", "plan.before.full_share", "plan.default.padding",
            "tuned.loss.worst"} <= paths  # fmt: skip
    assert found["fixes"][0]["flags"] == [
        "--cudagraph-capture-sizes " + " ".join(map(str, plan["plan"]["sizes"]))
    ]
    assert page.count("<svg") == 2 * (8 + len(tuned["throughput"])), (
        "each chart in two widths"
    )
    assert len(page.encode()) < 1_000_000


def test_a_saved_plan_is_shown_too(specgrid: Run, report: Any, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    log = str(EXAMPLES / "workload.csv")
    for dispatcher in ("union", "per-query-length", "direct"):
        # fmt: off
        assert specgrid("plan", "--log", log, "--graphs", "60", "--no-stability",
                        "--dispatcher", dispatcher, "--save", str(saved),
                        *EAGLE3).status == 0
        # fmt: on
        page, found = report(*EAGLE3, "--plan", str(saved))
        # The load was recorded, the times were not; the file's notes say so.
        assert "mean step (assumed)" in page
        assert "padding (assumed)" not in page
        assert found["plan"]["problems"] == []
        assert found["fixes"][0]["title"] == "With this plan"
        assert found["fixes"][0]["result"]["graphs"] > 0


def test_a_plan_made_beside_other_sizes_says_nothing_of_today(
    report: Any, plan_file: Path
) -> None:
    page, found = report(*EAGLE3, "--plan", str(plan_file))
    assert found["plan"]["before"] is None
    assert found["plan"]["after"] is not None
    assert "made beside other capture sizes" in page


def test_a_plan_of_another_server_is_not_laid_over_this_one(
    report: Any, plan_file: Path
) -> None:
    other = ("--config", str(EXAMPLES / "eagle-schedule.sh"))
    page, found = report(*other, "--plan", str(plan_file))
    assert len(found["plan"]["problems"]) == 2
    assert "The plan is of another server" in page
    assert [f["title"] for f in found["fixes"]] == ["With the specgrid plug-in"]


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("--plan", "[]", "no JSON object"),
        ("--plan", "{}", "specgrid plan --json --frontier"),
        ("--plan", '{"schema": "specgrid.plan", "version": 2}', '"version": 1'),
        ("--plan", '{"schema": "specgrid.plan", "version": 1}', "server is not"),
        ("--plan", "{", "JSON"),
        ("--tuned", '{"schema": "specgrid.plan", "version": 1}', "specgrid.tune"),
        ("--tuned", '{"schema": "specgrid.tune", "version": 1}', "max_num_seqs is not"),
        ("--compare", "max-num-seqs: many", "max"),
    ],
)
def test_bad_files_are_one_line(
    option: str, text: str, says: str, specgrid: Run, tmp_path: Path
) -> None:
    path = tmp_path / "given.yaml"
    path.write_text(text)
    out = tmp_path / "page.html"
    result = specgrid("report", str(out), *EAGLE3, option, str(path))
    assert result.status == 2
    assert says in result.err
    assert result.err.count("\n") == 1
    assert not out.exists()


def test_numbers_that_are_not_numbers_are_refused_by_name(
    specgrid: Run, plan_file: Path, tmp_path: Path
) -> None:
    found = json.loads(plan_file.read_text())
    found["before"]["mean_step_us"] = "<b>7</b>"
    plan_file.write_text(json.dumps(found))
    out = str(tmp_path / "page.html")
    result = specgrid("report", out, *EAGLE3, "--plan", str(plan_file))
    assert (result.status, "before.mean_step_us is not a number" in result.err) == (
        2,
        True,
    )


@pytest.mark.parametrize("option", ["--plan", "--tuned"])
def test_no_damage_to_a_given_file_ends_in_a_traceback(
    option: str, specgrid: Run, plan_file: Path, tuned_file: Path, tmp_path: Path
) -> None:
    path = plan_file if option == "--plan" else tuned_file
    whole = json.loads(path.read_text())
    places = [p for p in _places(whole) if p]
    chance = random.Random(7)
    for _ in range(8):
        damaged = json.loads(path.read_text())
        place = chance.choice(places)
        inner = damaged
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = chance.choice(
            [None, [], {}, 0, -1, 1e300, 2**70, "<b>", True, [[]], [1], [{}], [None]]
        )
        given = tmp_path / "damaged.json"
        given.write_text(json.dumps(damaged))
        out = str(tmp_path / "page.html")
        result = specgrid("report", out, *FEW_SIZES, option, str(given))
        assert result.status in (0, 2), place
        assert result.err.count("\n") == (result.status == 2), place


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*at, key))
    elif isinstance(value, list):
        for i in range(min(len(value), 2)):
            yield from _places(value[i], (*at, i))


def test_comparison_counts_every_batch_once(report: Any, tmp_path: Path) -> None:
    other = tmp_path / "old.yaml"
    other.write_text("max-num-seqs: 240\nmax-cudagraph-capture-size: 200\n")
    page, found = report(*EAGLE3, "--compare", str(other))
    compare = found["compare"]
    batches = compare["diff"]["batches"]
    assert batches["better"] + batches["same"] + batches["worse"] == 240
    assert (batches["only_before"], batches["only_after"]) == (0, 16)
    assert {"name": "max_num_seqs", "before": 240, "after": 256} in compare["settings"]
    assert "What changes from old.yaml" in page
    _, alike = report(*EAGLE3, "--compare", EAGLE3[1])
    assert alike["compare"]["settings"] == []
    assert alike["compare"]["diff"]["batches"]["same"] == 256


# -- robustness ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--enforce-eager",), "CUDA graphs are off: every decode batch runs eager."),
        (("-cc.cudagraph_mode=PIECEWISE",), "No decode batch gets a FULL graph."),
        (("--max-num-seqs", "1"), "Every decode batch has its graph."),
        (("--max-num-seqs", "2000000", "--max-num-batched-tokens", "2000000"),
         "Too many batches to look at one by one."),
        (("--max-num-seqs", "6", "--spec-tokens", "6", "--spec-method", "mtp",
          "--max-cudagraph-capture-size", "42"),
         "1 of 6 decode batches loses its graph."),
        (("VLLM_USE_V2_MODEL_RUNNER=0", "vllm", "serve", "M", "--spec-method", "mtp",
          "--spec-tokens", "2"), None),
        (("--max-num-seqs", "8", "--additional-config",
          '{"specgrid": {"policy": "reachable"}}', "--spec-tokens", "3"), None),
    ],
)  # fmt: skip
def test_unusual_servers_have_a_page(
    arguments: tuple[str, ...], sentence: str | None, report: Any
) -> None:
    pasted = ("--", *arguments) if "vllm" in arguments else arguments
    page, found = report(*pasted)
    Reader(page)
    if sentence is not None:
        assert found["headline"]["sentence"] == sentence


def test_schedules_of_very_many_rows_have_a_page(report: Any) -> None:
    rows = [[b, b, b * 7 % 41] for b in range(1, 501)]
    page, found = report(
        "--max-num-seqs", "500", "--num-speculative-tokens", "40", "--schedule",
        json.dumps(rows), "--max-num-batched-tokens", "65536",
    )  # fmt: skip
    Reader(page)
    assert len(found["coverage"]["map"]["rows"]) == 41
    assert "The first 32 of the query lengths." in page
    assert "Too many ranges to draw" in page


def test_an_invalid_schedule_is_the_headline_and_exit_1(report: Any) -> None:
    page, found = report(
        "--max-num-seqs", "8", "--num-speculative-tokens", "3", "--schedule",
        "[[2,8,3]]", status=1,
    )  # fmt: skip
    assert found["headline"]["verdict"] == "invalid"
    assert "must start at 1" in page


def test_markup_in_names_stays_text(report: Any, tmp_path: Path) -> None:
    evil = tmp_path / "<img src=x>.yaml"
    evil.write_text("model: '</script><script>alert(1)</script>$x$ &lt;'\n")
    title = "</title><img src=x onerror=alert(1)>"
    page, _ = report("--config", str(evil), "--title", title, "--compare", str(evil))
    reader = Reader(page)
    assert "img" not in reader.tags
    assert reader.tags["script"] == 2
    assert "</script><script>alert(1)</script>$x$ &lt;" in reader.texts
    assert title in reader.texts


def test_the_page_refers_to_nothing_outside(report: Any) -> None:
    page, _ = report(*EAGLE3)
    text = re.sub(r'<script type="application/json".*?</script>', "", page)
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert "url(http" not in text
    assert "@import" not in text
    assert "default-src 'none'" in page


def test_equal_runs_write_equal_files(report: Any) -> None:
    assert report(*EAGLE3)[0] == report(*EAGLE3)[0]


def test_a_failed_run_leaves_the_old_page(specgrid: Run, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    out.write_text("old")
    assert specgrid("report", str(out), "--max-num-seqs", "many").status == 2
    assert out.read_text() == "old"
    assert specgrid("report", str(out), *EAGLE3).status == 0
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("page.txt", "no page to write"),
        ("--max-num-seqs", "name it first"),
        ("nowhere/page.html", "make its folder first"),
        (".html", None),
    ],
)
def test_a_bad_place_for_the_page_is_one_line(
    out: str, says: str | None, specgrid: Run, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    result = specgrid("report", out, *EAGLE3)
    assert result.status == 2
    assert says is None or says in result.err
    assert result.err.count("\n") == 1


# -- pictures ------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF-"),
                                             ("svg", b"<?xml")])  # fmt: skip
def test_explain_plots_in_three_formats(
    kind: str, magic: bytes, specgrid: Run, tmp_path: Path
) -> None:
    path = tmp_path / f"map.{kind}"
    result = specgrid("explain", *EAGLE3, "--plot", str(path))
    assert result.status == 0
    assert path.read_bytes().startswith(magic)
    first = path.read_bytes()
    specgrid("explain", *EAGLE3, "--plot", str(path))
    assert path.read_bytes() == first
    if kind == "svg":
        assert b"86 of 256 decode batches lack a FULL graph" in first


def test_plan_and_tune_plot(specgrid: Run, tmp_path: Path, tuned_file: Path) -> None:
    path = tmp_path / "frontier.svg"
    log = str(EXAMPLES / "workload.csv")
    # fmt: off
    result = specgrid("plan", "--log", log, "--graphs", "40", "--no-stability",
                      "--plot", str(path), "--json", *EAGLE3)
    assert result.status == 0
    assert json.loads(result.out)["frontier"] is None
    assert "graphs captured" in path.read_text()
    steps = str(tmp_path / "steps.csv")
    result = specgrid("tune", "--latency", steps, "--acceptance", "0.7,0.4,0.3,0.2,0.1",
                      "--plot", str(path), *EAGLE3)
    # fmt: on
    assert result.status == 0
    assert "Draft tokens: " in path.read_text()


@pytest.mark.parametrize("command", ["explain", "plan", "report"])
def test_without_matplotlib_the_install_command_is_named(
    command: str, specgrid: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out = tmp_path / "page.html"
    words = ("report", str(out)) if command == "report" else (
        command, "--plot", str(tmp_path / "x.png"))  # fmt: skip
    result = specgrid(*words, *EAGLE3)
    assert result.status == 2
    assert result.err == (
        "specgrid: pictures need matplotlib, which is not installed; run: "
        "pip install 'specgrid[plot]'\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_picture_of_no_known_kind_is_refused(specgrid: Run) -> None:
    result = specgrid("explain", *EAGLE3, "--plot", "map.gif")
    assert (result.status, ".png or .svg or .pdf" in result.err) == (2, True)


def test_explain_has_nothing_to_draw_without_graphs(
    specgrid: Run, tmp_path: Path
) -> None:
    result = specgrid("explain", "--enforce-eager", "--plot", str(tmp_path / "x.png"))
    assert result.status == 2
    assert "leave --plot out" in result.err


# -- colours and pixels ----------------------------------------------------------------


def luminance(color: str) -> float:
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [style.LIGHT, DARK], ids=["light", "dark"])
def test_the_states_differ_without_hue(theme: dict[str, str]) -> None:
    assert set(theme) == set(style.LIGHT)
    assert len(set(style.LIGHT.values())) == len(style.LIGHT)
    # Best to worst is a scale of greys: a print or any eye tells them apart.
    states = [theme[k] for k in ("full", "piecewise", "hidden", "eager")]
    shades = [luminance(c) for c in states]
    assert shades in (sorted(shades), sorted(shades, reverse=True))
    assert all(contrast(a, b) > 1.4 for a, b in itertools.pairwise(states))
    assert contrast(theme["full"], theme["hidden"]) > 1.9
    assert contrast(theme["full"], theme["eager"]) > 3
    assert contrast(theme["hidden"], theme["eager"]) > 1.9
    assert contrast(theme["paper"], theme["ink"]) > 12
    assert contrast(theme["paper"], theme["soft"]) > 4.5
    assert contrast(theme["paper"], theme["hidden"]) > 4.5
    for name in ("ramp", "loss"):
        steps = [v for k, v in theme.items() if k.startswith(name)]
        for level, color in enumerate(steps):
            text = theme["ink" if level < 4 else "paper"]
            assert contrast(color, text) > 3, (name, level)
        light = [luminance(c) for c in steps]
        assert light in (sorted(light), sorted(light, reverse=True))


@pytest.mark.parametrize("columns", [7, 100, 896])
def test_one_missed_batch_of_65536_always_has_a_pixel(columns: int) -> None:
    for batch in (1, 2, 1000, 32768, 65535, 65536):
        runs = [(1, batch - 1, "full"), (batch, batch, "hidden"),
                (batch + 1, 65536, "full")]  # fmt: skip
        spans = bands.columns_of([r for r in runs if r[0] <= r[1]], 65536, columns)
        missed = [s for s in spans if s[2] == "hidden"]
        assert len(missed) == 1
        lo, hi, _ = missed[0]
        assert lo < batch < hi
        assert hi - lo >= 65536 / columns * 0.999
        assert sum(b - a for a, b, _ in spans) == pytest.approx(65536)


# -- given files: every shape by name, every variant on the page -----------------------


def changed(path: Path, place: tuple[Any, ...], value: object) -> str:
    found = json.loads(path.read_text())
    inner = found
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    path.write_text(json.dumps(found))
    return str(path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("plan", "sizes"), [0], "plan.sizes or plan.graphs holds a number below 1"),
        (("plan", "graphs"), [[1, 0]], "plan.sizes or plan.graphs holds a number be"),
        (("plan", "graphs"), [[1]], "plan.graphs[0] is not a list of 2"),
        (("plan", "sizes"), 7, "plan.sizes is not a list"),
        (("plan", "optimal"), 1, "plan.optimal is not true or false"),
        (("data", "load"), [[1, 1, -2]], "data.load holds a number below 0"),
        (("worth",), [{"us": 1.0}], "worth[0] names neither size nor graph"),
        (("notes",), [3], "notes[0] is not a text"),
        (("frontier",), [{"num_graphs": -1}], "frontier[0].num_graphs is not a whole"),
        (("after",), None, "after is not an object"),
    ],
)
def test_a_plan_of_another_shape_is_refused_where_it_differs(
    specgrid: Run,
    plan_file: Path,
    tmp_path: Path,
    place: tuple[Any, ...],
    value: object,
    message: str,
) -> None:
    given = changed(plan_file, place, value)
    result = specgrid("report", str(tmp_path / "p.html"), *EAGLE3, "--plan", given)
    assert result.status == 2
    assert message in result.err
    assert not (tmp_path / "p.html").exists()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("grid", "batches"), [], "grid.batches is not a list of at least one"),
        (("grid", "drafts"), [[1]], "grid.drafts is not "),
        (("grid", "loss", 0), [], "grid.loss is not "),
        (("throughput", 0, "lines"), [], "throughput[0].lines is not a list of at"),
    ],
)
def test_a_tuned_schedule_of_another_shape_is_refused_where_it_differs(
    specgrid: Run,
    tuned_file: Path,
    tmp_path: Path,
    place: tuple[Any, ...],
    value: object,
    message: str,
) -> None:
    given = changed(tuned_file, place, value)
    result = specgrid("report", str(tmp_path / "p.html"), *EAGLE3, "--tuned", given)
    assert result.status == 2
    assert message in result.err


def test_a_tuned_schedule_without_pictures_has_a_page(
    report: Any, tuned_file: Path
) -> None:
    changed(tuned_file, ("grid",), None)
    given = changed(tuned_file, ("throughput",), None)
    page, found = report(*EAGLE3, "--tuned", given)
    assert (found["tuned"]["grid"], found["tuned"]["throughput"]) == (None, None)
    assert "<html" in page


def text_of(element: Any) -> str:
    return "".join(element.itertext())


@pytest.mark.parametrize(
    ("down", "up", "assumed", "sentence"),
    [
        (None, None, False, "takes any time it may."),
        (-2000.0, None, False, "gets faster by no more than 2.000 ms than measured."),
        (None, 3000.0, True, "slower by no more than 3.000 ms than assumed."),
        (-2000.0, 3000.0, True,
         "gets faster by no more than 2.000 ms and slower by no more than 3.000 ms "
         "than assumed."),
    ],
)  # fmt: skip
def test_how_stable_a_plan_is_stands_in_a_sentence(
    down: float | None, up: float | None, assumed: bool, sentence: str
) -> None:
    found = {"shift_down_us": down, "shift_up_us": up, "assumed": assumed}
    element = section_plan._stability(Bound({"plan": {"stability": found}}))
    start = "The plan stays the best while an eager step "
    assert text_of(element) == start + sentence
    assert section_plan._stability(Bound({"plan": {"stability": None}})) is None


def test_a_plan_says_what_it_was_made_from() -> None:
    def sources(num_steps: int, *assumed: bool) -> Any:
        given = [{"name": f"part {i}", "assumed": a} for i, a in enumerate(assumed)]
        data = {"num_steps": num_steps, "sources": given}
        return section_plan._sources(Bound({"plan": {"data": data}}))

    assert sources(9) is None
    assert text_of(sources(0, True)) == "Assumed, not measured: part 0."
    assert text_of(sources(9, False, True)) == (
        "9 recorded steps. Assumed, not measured: part 1."
    )
    assert text_of(sources(9, False)) == "9 recorded steps. "


MEASURED: dict[str, Any] = {"data": {"sources": []}}


def test_an_unproven_plan_says_how_far_off_it_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(section_plan, "picture", lambda name, label, draw: label)
    point = {"num_graphs": 3, "mean_step_us": 7000.0}
    own = {"optimal": False, "gap": 0.0125, "eager_us": 9e3, "lower_bound_us": None}
    plan = {"frontier": [point], "plan": own, "stability": None, **MEASURED}
    text = text_of(section_plan._frontier(Bound({"plan": plan})))
    assert "The plan is not proven best; one could be better by at most 1.2" in text
    assert "no plan can be below an unknown bound." in text
    plan["plan"] = own | {"optimal": True, "lower_bound_us": 6000.0}
    text = text_of(section_plan._frontier(Bound({"plan": plan})))
    assert "Each point is proven best within its budget." in text
    assert "no plan can be below 6.000 ms." in text


def test_keyed_graphs_are_named_by_query_length_and_requests() -> None:
    worth = [
        {"size": None, "graph": [4, 2], "us": 5.0},
        {"size": 16, "graph": None, "us": 1.0},
    ]
    text = text_of(section_plan._worth(Bound({"plan": {"worth": worth, **MEASURED}})))
    assert "query length × requests" in text
    assert "4 × 2" in text
    text = text_of(
        section_plan._worth(Bound({"plan": {"worth": worth[1:], **MEASURED}}))
    )
    assert "size, tokens" in text


# -- assumed and impossible numbers ----------------------------------------------------


def words_of(page: str) -> str:
    return " ".join(" ".join(Reader(page).texts).split())


def test_numbers_nobody_measured_are_marked_everywhere(
    specgrid: Run, report: Any, tmp_path: Path
) -> None:
    given = tmp_path / "guess.json"
    words = ("--graphs", "40", "--no-stability", *FEW_SIZES)
    given.write_text(specgrid("plan", "--json", "--frontier", *words).out)
    page, _ = report(*FEW_SIZES, "--plan", str(given))
    text = words_of(page)
    for name in ("mean step", "graph memory", "steps on a FULL graph"):
        found = re.findall(
            rf"(?<!The best ){name}(?:, by load)?(?! longer)(.{{10}})", text
        )
        assert sum(f == " (assumed)" for f in found) >= 2, (name, found)
    assert "Over the assumed load:" in text
    assert "recorded steps" not in text
    assert text.count("The times are assumed in part, not measured.") == 2
    assert "how often each batch ran" not in page


def test_a_recorded_load_is_not_marked(
    specgrid: Run, report: Any, plan_file: Path
) -> None:
    text = words_of(report(*FEW_SIZES, "--plan", str(plan_file))[0])
    assert "Over the recorded steps:" in text
    assert "steps on a FULL graph, by load (assumed)" not in text
    # The costs of this plan are assumed all the same.
    assert "mean step, by load (assumed)" in text


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ([1e308, 5], "is not a number from 0 to 1e15"),
        ([1, -5], "is not a number from 0 to 1e15"),
        ([1.5, 5], "batch 1.5, which is no number of requests"),
        ([0, 5], "batch 0, which is no number of requests"),
    ],
)
def test_throughput_that_cannot_be_is_refused(
    specgrid: Run, tuned_file: Path, tmp_path: Path, point: list[float], words: str
) -> None:
    tuned = json.loads(tuned_file.read_text())
    tuned["throughput"][0]["lines"][0]["points"][0] = point
    tuned_file.write_text(json.dumps(tuned))
    page = str(tmp_path / "p.html")
    result = specgrid("report", page, *EAGLE3, "--tuned", str(tuned_file))
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert "throughput[0].lines[0]" in result.err
    assert words in result.err


def test_a_share_above_one_is_refused(
    specgrid: Run, plan_file: Path, tmp_path: Path
) -> None:
    plan = json.loads(plan_file.read_text())
    plan["before"]["full_share"] = 1.5
    plan_file.write_text(json.dumps(plan))
    page = str(tmp_path / "p.html")
    result = specgrid("report", page, *FEW_SIZES, "--plan", str(plan_file))
    assert result.status == 2
    assert "before.full_share is not a number from 0 to 1" in result.err


def test_the_page_pastes_all_words_of_a_tuned_pair(
    report: Any, tuned_file: Path
) -> None:
    tuned = json.loads(tuned_file.read_text())
    tuned["settings"]["args"] += ["--cudagraph-capture-sizes", "8", "64"]
    tuned_file.write_text(json.dumps(tuned))
    page, _ = report(*EAGLE3, "--tuned", str(tuned_file))
    assert "--cudagraph-capture-sizes 8 64" in words_of(page)
    del tuned["settings"]["args"]  # a file of before this key
    tuned_file.write_text(json.dumps(tuned))
    assert "--additional-config" in words_of(
        report(*EAGLE3, "--tuned", str(tuned_file))[0]
    )
