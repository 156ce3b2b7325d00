"""The files of a stopped replay survive a kill at any moment, and belong to one process at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kerneldb.api.resuming import Files
from kerneldb.errors import UsageError

HOLD = """
import sys
from pathlib import Path
from kerneldb.api.resuming import Files
with Files.beside(Path(sys.argv[1])).claimed():
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files.beside(tmp_path / "k.duckdb")


def stop(files: Files, word: str) -> dict[str, str]:
    """A run that was stopped: its files, with `word` in them; returns names and texts."""
    texts = {path.name: f"{word} {path.name}" for path in (files.plan, *_journals(files))}
    for name, text in texts.items():
        files.plan.with_name(name).write_text(text)
    return texts


def _journals(files: Files) -> list[Path]:
    return [files.journal.with_name(f"{files.journal.name}.{number}") for number in range(2)]


def there(files: Files) -> dict[str, str]:
    return {path.name: path.read_text() for path in files.plan.parent.iterdir() if path.is_file()}


def test_a_stopped_run_comes_back_where_its_successor_never_began(files: Files) -> None:
    old = stop(files, "old")
    files.put_aside()
    assert (there(files), files.resumable) == ({}, True)
    stop(files, "new")
    files.take_back()
    assert there(files) == old
    assert not files.aside.exists()


class KilledError(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("step", ["put_aside", "take_back"])
@pytest.mark.parametrize("moves", range(3))
def test_a_kill_between_two_files_loses_none(
    files: Files, monkeypatch: pytest.MonkeyPatch, step: str, moves: int
) -> None:
    old = stop(files, "old")
    if step == "take_back":
        files.put_aside()
        stop(files, "new")
    made = 0
    replace = Path.replace

    def once_less(path: Path, target: Path) -> Path:
        nonlocal made
        if made == moves:
            raise KilledError
        made += 1
        return replace(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", once_less)
        with pytest.raises(KilledError):
            getattr(files, step)()
    files.take_back()
    assert there(files) == old


def test_one_process_at_a_time_replays_into_a_database(files: Files, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "k.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match=f"process {other.pid} replays into this database"), files.claimed():
            pass
        other.kill()
        other.wait()
        with files.claimed():
            assert there(files) == {f"{files.plan.name}.lock": there(files)[f"{files.plan.name}.lock"]}
    assert there(files) == {}
