"""What stands where a file should be: pipes, devices and links cost a line, and no waiting."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from kerneldb import files
from kerneldb.cli import cli
from kerneldb.errors import WarehouseError
from kerneldb.warehouse import engine


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


@pytest.mark.parametrize("place", [b"in/\xff\xfebad.json.gz", b"in\xff/bad.json.gz"])
def test_names_that_are_not_utf8_are_read(tmp_path: Path, root: Path, place: bytes) -> None:
    """By the path of the file, in its folder, and again by the name of the trace."""
    file = tmp_path / os.fsdecode(place)
    file.parent.mkdir()
    file.write_bytes((root / "examples" / "decoder-h200.json.gz").read_bytes())
    for number, given in enumerate((file, file.parent)):
        database = tmp_path / f"{number}.duckdb"
        code, text = said("--db", database, "ingest", given, "--format", "json")
        assert code == 0, text
        assert r"\\udcff" in text
        (name,) = said("--db", database, "traces", "--csv", "--no-header")[1].split(",")[:1]
        assert said("--db", database, "db", "doctor", name)[0] == 0


def test_a_database_needs_a_path_in_utf8(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    code, text = said("--db", folder / "k.duckdb", "ingest", root / "examples" / "decoder-h200.json.gz")
    assert code == 2
    assert "is not UTF-8" in text


def test_what_is_no_file_is_said_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "gone.json").symlink_to("nowhere")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as one, contextlib.chdir(tmp_path):
        one.bind("socket.json")  # a path of a socket is short
    for name, what in {"pipe": "a pipe", "socket": "a socket", "zero": "a device", "gone": "a link to"}.items():
        code, text = said("--db", tmp_path / "k.duckdb", "ingest", tmp_path / f"{name}.json")
        assert (code, f"{name}.json: " in text, what in text) == (1, True, True), text
        assert "no such file" not in text


def test_reports_that_only_their_tool_reads_are_told_of(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "traces"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "up").symlink_to(folder)
    (folder / "good.json.gz").write_bytes((root / "examples" / "decoder-h200.json.gz").read_bytes())
    for name in ("run.nsys-rep", "inner/job.1.qdrep", "done.qdstrm", ".hidden.nsys-rep"):
        (folder / name).write_bytes(b"\x00binary")
    (folder / "done_pqtdir").mkdir()
    os.mkfifo(folder / "pipe.nsys-rep")
    code, text = said("--db", tmp_path / "k.duckdb", "ingest", folder, "--quiet")
    told = [line for line in text.splitlines() if line.startswith("left out: ")]
    assert code == 0
    assert [line.split(": ")[1].removeprefix(f"{folder}/") for line in told] == ["run.nsys-rep", "inner/job.1.qdrep"]
    assert "nsys export --type sqlite --output job.1.sqlite job.1.qdrep" in told[1]
    assert text == "".join(f"{line}\n" for line in told)


def test_where_rights_lack_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.csv"
    denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    assert files.told(denied).startswith(f"{target}: Permission denied; change the rights of it or of its folder")
    problem = engine._problem(target, duckdb.IOException(f'IO Error: Cannot open file "{target}": Permission denied'))
    assert str(problem).endswith("; change the rights of file and folder, or copy it to a folder where you may write")
    with pytest.raises(WarehouseError, match=r"k\.duckdb\.wal.*; change the rights"), engine.store_errors(target):
        raise duckdb.TransactionException('Failed to commit: Cannot open file "k.duckdb.wal": Permission denied')

    def read_only(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "open", read_only)
    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(OSError, match="Read-only") as caught, files.written(target):
        pass
    assert caught.value.filename == str(target)


def test_a_link_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    link = tmp_path / "x.json"
    link.symlink_to("gone.json")
    done = CliRunner().invoke(cli, ["--db", str(tmp_path / "k.duckdb"), "db", "doctor", str(link)])
    assert (done.exit_code, f"{link}: a link to what is not there (gone.json)" in done.stderr) == (2, True)
