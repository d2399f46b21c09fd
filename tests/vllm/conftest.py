# SPDX-License-Identifier: Apache-2.0
"""Tests against a real, installed vLLM 0.33 on a machine without a GPU.

Without vLLM this folder is not collected and the run ends with one line that says so;
SPECGRID_REQUIRE_VLLM=1 turns that into a failure. All tests here share one process and
one import of vLLM; engines and start-up failures run in child processes.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).parent / "support"
HAVE_VLLM = importlib.util.find_spec("vllm") is not None
MISSING = (
    "tests/vllm was NOT run: vLLM is not installed here "
    "(tests/vllm/requirements.txt; docs/testing.md)"
)

collect_ignore = ["support"]
if not HAVE_VLLM:
    if os.environ.get("SPECGRID_REQUIRE_VLLM") == "1":
        raise pytest.UsageError(MISSING)
    collect_ignore_glob = ["test_*.py"]
else:
    sys.path.insert(0, str(SUPPORT))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not HAVE_VLLM:
        terminalreporter.write_line(MISSING, yellow=True, bold=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            # vLLM and its dependencies warn on import; that is not our business.
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where counters of this session go."""
    folder = tmp_path_factory.mktemp("specgrid-run")
    os.environ["SPECGRID_RUN_DIR"] = str(folder)
    yield folder
    del os.environ["SPECGRID_RUN_DIR"]


@pytest.fixture(scope="session")
def sim(run_dir: Path) -> Any:
    """vLLM with a simulated CUDA device, and the plug-in registered."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import vllm_sim

        vllm_sim.install()
        vllm_sim.single_rank()
        from specgrid import vllm_plugin

        vllm_plugin.register()
        # Tests take the plug-in out and in; vLLM must not load it behind them.
        import vllm.plugins

        vllm.plugins.plugins_loaded = True
    return vllm_sim


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny Llama checkpoint."""
    folder = tmp_path_factory.mktemp("tiny-model")
    subprocess.run(
        [sys.executable, str(SUPPORT / "tiny_model.py"), str(folder)],
        check=True,
        capture_output=True,
    )
    return str(folder)


@pytest.fixture
def plugin(sim: Any) -> Iterator[Any]:
    """The plug-in's modules, freshly installed before and after the test."""
    from specgrid.vllm_plugin import _log, _register

    _register.undo()
    _log._said.clear()
    _register.register()
    yield _register
    _register.undo()
    _log._said.clear()
    _register.register()


@pytest.fixture
def log(sim: Any) -> Iterator[list[str]]:
    """What the plug-in says, as "LEVEL message" lines."""
    import logging

    lines: list[str] = []

    def collect(record: logging.LogRecord) -> bool:
        lines.append(f"{record.levelname} {record.getMessage()}")
        return True

    # A filter: vLLM removes the handlers of loggers below its own when it
    # configures its log.
    logger = logging.getLogger("vllm.specgrid")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addFilter(collect)
    yield lines
    logger.removeFilter(collect)
    logger.setLevel(level)
