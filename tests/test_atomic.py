# SPDX-License-Identifier: Apache-2.0
"""Files are written whole or not at all, wherever their path leads."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from specgrid._atomic import write_whole

NAMES = ["plan.json", "with spaces.json", "größe-計画-🙂.json", "-dash", "a" * 255]


@pytest.mark.parametrize("name", [*NAMES, os.fsdecode(b"not-utf8-\xff\xfe")])
def test_any_name_holds_the_data_and_nothing_else_is_left(
    tmp_path: Path, name: str
) -> None:
    for data in (b"first", b"second" * 1000, b""):
        write_whole(tmp_path / name, data)
        assert (tmp_path / name).read_bytes() == data
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_link_goes_on_pointing_where_it_did(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "real.json"
    real.parent.mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(real)
    for data in (b"new", b"newer"):  # the first while it points to nothing
        write_whole(link, data)
        assert link.is_symlink()
        assert real.read_bytes() == data
    assert len(list(real.parent.iterdir())) == 1


def test_permissions_stay_and_new_files_follow_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for umask, mode in ((0, 0o666), (0o027, 0o640)):
        path.unlink(missing_ok=True)
        before = os.umask(umask)
        try:
            write_whole(path, b"new")
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    path.chmod(0o604)
    write_whole(path, b"newer")
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_the_scratch_file_never_takes_the_place_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "taken")
    other = tmp_path / ".plan.json.taken.tmp"
    other.write_bytes(b"somebody's")
    with pytest.raises(FileExistsError) as caught:
        write_whole(tmp_path / "plan.json", b"data")
    assert caught.value.filename == str(tmp_path / "plan.json")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"somebody's"]


def test_what_cannot_be_finished_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b"old")

    def stopped(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def test_a_full_device_is_said_and_stays_a_device() -> None:
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("no /dev/full here")
    with pytest.raises(OSError, match="No space left"):
        write_whole(full, b"x" * 100_000)
    assert full.is_char_device()


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("where", ["missing/plan.json", ".", "file/plan.json"])
def test_where_nothing_can_be_written_the_path_is_named(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError) as caught:
        write_whole(tmp_path / where, b"data")
    assert caught.value.filename == str(tmp_path / where)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
