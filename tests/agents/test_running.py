"""What agents may run where the user allows it: counters of chosen kernels, by a program that stands in for ncu."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

import kerneldb

if TYPE_CHECKING:
    from collections.abc import Callable

FAKE = Path(__file__).parents[1] / "counters" / "fake_ncu.py"
CHOSEN = "op = 'aten::silu'"


@pytest.mark.thorough
def test_counters_that_are_allowed_are_read_and_stored_and_their_query_gives_them_again(
    asked: Path, ask: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
    program = tmp_path / "ncu"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-P", str(FAKE)])} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    path = Path(shutil.copy(asked, tmp_path / "k.duckdb"))
    question = ("counters", {"where": CHOSEN, "device": "cpu", "traces": ["decoder-h200"]})
    (refused,) = ask(path, [question], ["replay", "improve"])
    assert "--allow counters" in refused["cannot_answer"]
    (answer,) = ask(path, [question], ["counters"])
    rows = answer["parts"]["counters"]["rows"]
    stored = kerneldb.open(path).sql("SELECT * FROM signature_counters WHERE method = 'replay'").rows()
    assert {row["metric"] for row in stored} > {"dram__bytes.sum.per_second", "gpu__time_duration.sum"}
    assert len(rows) > 0
    again = answer["parts"]["counters"]
    asking = {"sql": again["query"], "where": again.get("where"), "traces": again.get("traces"), "limit": len(rows)}
    (repeated,) = ask(path, [("query", asking)])
    assert repeated["rows"] == rows


@pytest.mark.parametrize("obeys", [True, False])
def test_a_command_ends_when_the_client_does_not_wait_any_more(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, obeys: bool
) -> None:
    """As by Ctrl-C, so that it stores what it has; by force where it goes on."""
    pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'kerneldb[mcp]'")
    from mcp import Client

    from kerneldb.agents import running, server

    ready, ended = tmp_path / "ready", tmp_path / "ended"
    os.mkfifo(ready)
    program = (
        "import os, pathlib, signal, sys, time\n"
        f"def end(*_):\n    pathlib.Path({str(ended)!r}).touch()\n    {'sys.exit(130)' if obeys else 'pass'}\n"
        f"signal.signal(signal.SIGINT, end)\npathlib.Path({str(ready)!r}).write_text(str(os.getpid()))\n"
        "while True: time.sleep(60)\n"
    )
    monkeypatch.setattr(running, "PROGRAM", (sys.executable, "-P", "-c", program))
    monkeypatch.setattr(running, "END_S", 1e6 if obeys else 0.2)

    async def conversation() -> int:
        async with Client(server.server(kerneldb.open(asked, create=False), ["replay"])) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "replay", {"where": CHOSEN, "device": "cpu"})
                process = int(await anyio.to_thread.run_sync(ready.read_text))
                group.cancel_scope.cancel()
            await client.call_tool("traces", {})
            return process

    process = anyio.run(conversation)
    assert ended.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_a_command_ends_with_a_server_that_is_killed() -> None:
    """What the command prints reaches us also when its server is dead; the pipe ends when both are."""
    command = (
        "import os, time\nfrom kerneldb.agents import child\n"
        "try:\n    child.end_with(os.getppid())\n    print('on', flush=True)\n    time.sleep(1e6)\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    server = "import subprocess, sys\nsubprocess.run([sys.executable, '-P', '-c', sys.argv[1]], start_new_session=True)"
    with subprocess.Popen([sys.executable, "-P", "-c", server, command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.SIGKILL)
        assert process.stdout.read() == "interrupted\n"
