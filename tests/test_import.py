# SPDX-License-Identifier: Apache-2.0
"""What importing does: in fresh processes, since a module is imported once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import specgrid

USE = "import specgrid; specgrid.capture_sizes(4)"
BROKEN = "import sys; sys.modules['specgrid._core'] = None; "


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_import_is_lean() -> None:
    found = run(
        "import sys, specgrid; print([m for m in sys.modules if m.split('.')[0] in "
        "{'torch', 'vllm', 'matplotlib', 'click', 'rich', 'yaml'} or "
        "m.startswith('specgrid._reference')])"
    )
    assert found.stdout.strip() == "[]", found.stderr


@pytest.mark.parametrize("wanted", ["native", "reference"])
def test_the_back_end_can_be_forced(wanted: str) -> None:
    code = (
        "from specgrid import _backend, Schedule; "
        "print(_backend.name(), Schedule([[1, 8, 2]]).lookup(8, 2)[4])"
    )
    assert run(code, SPECGRID_BACKEND=wanted).stdout.split() == [wanted, "2"]


def test_without_the_extension_auto_warns_once_with_the_reason() -> None:
    code = BROKEN + (
        "import specgrid; from specgrid import _backend; "
        "print(_backend.name(), bool(_backend.fallback_reason), "
        "specgrid.Schedule([[1, 8, 2]]).lookup(8, 2)[4])"
    )
    found = run(code, SPECGRID_BACKEND="auto")
    assert found.stdout.split() == ["reference", "True", "2"]
    assert found.stderr.count("slow pure-Python reference") == 1


def test_without_the_extension_native_fails_loudly() -> None:
    found = run(BROKEN + USE, SPECGRID_BACKEND="native")
    assert found.returncode == 1
    assert "SPECGRID_BACKEND=native, but the extension does not load" in found.stderr


def test_without_the_extension_reference_is_silent() -> None:
    found = run(BROKEN + USE, SPECGRID_BACKEND="reference")
    assert (found.returncode, found.stderr) == (0, "")


def test_an_unknown_back_end_is_named() -> None:
    found = run(USE, SPECGRID_BACKEND="fast")
    assert "use native, reference or auto" in found.stderr


def test_the_command_line_names_an_unknown_back_end_in_one_line() -> None:
    code = "from specgrid.cli import main; main(['explain', '--max-num-seqs', '8'])"
    found = run(code, SPECGRID_BACKEND="fast")
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert "use native, reference or auto" in found.stderr


def test_every_public_name_is_loaded_from_where_it_is_defined() -> None:
    assert [*sorted(specgrid._HOMES), "__version__"] == sorted(
        specgrid.__all__, key=lambda name: (name == "__version__", name)
    )
    for name in specgrid.__all__:
        assert getattr(specgrid, name) is not None
    assert dir(specgrid) == sorted(specgrid.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        specgrid.nothing  # noqa: B018


def test_importing_the_package_loads_none_of_its_parts() -> None:
    code = (
        "import sys, specgrid; "
        "print(sorted(m for m in sys.modules if m.startswith('specgrid.')))"
    )
    assert run(code).stdout.strip() == "['specgrid._version']"
