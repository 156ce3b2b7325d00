"""The processes of a recording of several ranks: none is left behind, and none waits for one that has failed."""

from __future__ import annotations

import concurrent.futures
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from kerneldb.replay.errors import ReplayError
from kerneldb.replay.recording import ranks
from kerneldb.replay.recording.ranks import Job, SilentEndError, free_ports
from kerneldb.replay.recording.settings import RecordError, Settings

TWO = Settings("gpt2", device="cpu", tp=2, workloads=("prefill",), trace_only=True)
SCRIPT = """
import json, os, pathlib, sys, time
folder = pathlib.Path({folder!r})
rank = json.load(sys.stdin)["place"].get("rank", 0)
(folder / f"{{rank}}.new").write_text(str(os.getpid()))
(folder / f"{{rank}}.new").rename(folder / f"{{rank}}.pid")
if rank == {fails}:
    while len([*folder.glob("*.pid")]) < 2:
        time.sleep(0.01)
    said = {{"what": "error", "message": "no memory", "exit_code": 3}}
    os.write(int(sys.argv[-1]), f"{{json.dumps(said)}}\\n".encode())
while True:  # as an end of Python that waits for the others
    time.sleep(60)
"""


def ended(folder: Path) -> bool:
    """Whether all processes that wrote their number are gone, and there were some."""
    found = [int(file.read_text()) for file in folder.glob("*.pid")]
    return bool(found) and not any(map(lives, found))


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def descriptors() -> int:
    return len([*Path("/dev/fd").iterdir()])


def standing_in(folder: Path, monkeypatch: pytest.MonkeyPatch, fails: int) -> None:
    script = SCRIPT.format(folder=str(folder), fails=fails)
    monkeypatch.setattr(ranks, "WORKER", (sys.executable, "-c", script))


@pytest.mark.parametrize("fails", [0, 1])
def test_where_a_rank_fails_the_others_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int) -> None:
    """Also where its process does not come to its end after it has said so."""
    standing_in(tmp_path, monkeypatch, fails)
    monkeypatch.setattr(ranks, "GRACE_S", 0.1)
    with pytest.raises(RecordError, match="no memory") as caught:
        ranks.run(TWO, tmp_path / "a", resume=False, listen=print)
    assert caught.value.exit_code == 3
    assert ended(tmp_path)


def test_an_interrupt_while_ranks_are_started_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standing_in(tmp_path, monkeypatch, -1)

    class Interrupted(concurrent.futures.ThreadPoolExecutor):
        begun = 0

        def submit(self, *given: Any, **named: Any) -> Any:
            self.begun += 1
            if self.begun > 1:
                while not [*tmp_path.glob("*.pid")]:
                    pass
                raise KeyboardInterrupt
            return super().submit(*given, **named)

    monkeypatch.setattr(ranks, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        ranks.run(TWO, tmp_path / "a", resume=False, listen=print)
    assert ended(tmp_path)


def test_what_was_stopped_is_not_started_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standing_in(tmp_path, monkeypatch, -1)
    process = ranks._Process(Job(TWO, str(tmp_path), resume=False))
    process.stop()
    open_files = descriptors()
    with pytest.raises(SilentEndError):
        process.run(print)
    assert not [*tmp_path.glob("*.pid")]
    assert descriptors() == open_files


@pytest.mark.thorough
def test_a_rank_that_cannot_go_on_tells_the_others_and_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    port, _ = free_ports(2)
    one, other = (ranks.Ranks(ranks.Place(rank, 2, port)) for rank in range(2))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for reasons, told in (((None, None), None), ((None, "no memory"), "no memory"), (("a", "b"), "a")):
            found = [pool.submit(rank.agree, reason) for rank, reason in zip((one, other), reasons, strict=True)]
            assert [each.result() for each in found] == [told, told]
        monkeypatch.setattr(ranks, "AGREEMENT", ranks.datetime.timedelta(milliseconds=50))
        with pytest.raises(ReplayError, match="rank 1: no memory"):
            other.agree("no memory")
