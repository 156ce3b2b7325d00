"""What stands where a file should be: pipes, devices and links cost a line, and no waiting."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from click.testing import CliRunner

from kerneldb.cli import cli

if TYPE_CHECKING:
    from pathlib import Path


def said(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.output


def test_a_pipe_or_device_is_no_database(tmp_path: Path, root: Path) -> None:
    pipe = tmp_path / "k.duckdb"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/null"):
        for words in (["top"], ["ingest", root / "examples" / "decoder-h200.json.gz"], ["db", "init"]):
            code, text = said("--db", path, *words)
            assert code != 0
            assert "a pipe or a device" in text, words


def test_pipes_and_links_in_a_folder_are_passed_over(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / "gone.json").symlink_to(tmp_path / "nowhere.json")
    (folder / "device.json").symlink_to("/dev/zero")
    (folder / "good.json.gz").write_bytes((root / "examples" / "decoder-h200.json.gz").read_bytes())
    code, text = said("--db", tmp_path / "k.duckdb", "ingest", folder)
    assert code == 0, text
    assert said("--db", tmp_path / "k.duckdb", "traces", "--csv", "--no-header")[1].count("\n") == 1
