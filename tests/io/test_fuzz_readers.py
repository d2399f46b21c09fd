# SPDX-License-Identifier: Apache-2.0
"""Every reader on its saved corpus and some mutations: fuzz_readers.py, in short.

SPECGRID_FUZZ_INPUTS=N takes N mutations a reader, from the same seed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


def _load() -> ModuleType:
    path = Path(__file__).with_name("fuzz_readers.py")
    spec = importlib.util.spec_from_file_location("fuzz_readers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_readers"] = module
    spec.loader.exec_module(module)
    return module


fuzz = _load()
READERS = fuzz.readers()
INPUTS = int(os.environ.get("SPECGRID_FUZZ_INPUTS", "60"))


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=fuzz.FOLDER) as name:
        yield Path(name)


@pytest.mark.parametrize("name", READERS)
def test_damaged_input_is_refused_or_counted(name: str, folder: Path) -> None:
    run = fuzz.begin(name, READERS[name], folder)
    assert run.num_inputs > len(READERS[name].seeds), "no saved corpus"
    choose = random.Random(f"8 {name}")
    for _, data in zip(range(INPUTS), fuzz.mutations(run, choose), strict=False):
        run.give(data)
    assert [
        (what, json.dumps(data.decode("latin-1"))) for what, data in run.faults
    ] == []


@pytest.mark.parametrize("name", READERS)
def test_good_input_is_read_whole(name: str, folder: Path) -> None:
    reader = READERS[name]
    path = folder / f"input{reader.suffix}"
    told = [fuzz.outcome(reader, data, path) for data in reader.seeds]
    assert any(how.startswith("whole") for how in told), told


def test_the_checks_see_a_reader_that_drops_or_crashes(folder: Path) -> None:
    path = folder / "input"
    log = READERS["log"]

    def drops(file: Path) -> object:
        found = log.read(file)
        found.report.num_skipped -= 1
        return found

    with pytest.raises(fuzz.Fault, match=r"lines counted|counted of"):
        fuzz.outcome(fuzz.Reader(drops, log.holds), log.seeds[0], path)
    with pytest.raises(fuzz.Fault, match="ZeroDivisionError"):
        fuzz.outcome(fuzz.Reader(lambda file: 1 // 0, log.holds), b"x", path)
