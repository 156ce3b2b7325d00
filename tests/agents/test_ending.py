"""Questions end in the middle of a statement: after their time, and when nobody waits for the answer any more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import duckdb
import pytest

import kerneldb
from kerneldb.agents import RUNS, answers, ending
from kerneldb.agents.answers import Page, of_query
from kerneldb.warehouse.execute import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENDLESS = "SELECT sum(sin(a.range * b.range)) AS n FROM range(10_000_000) AS a, range(10_000_000) AS b"
"""One statement, one row: nothing comes back before years are over."""


def test_a_question_ends_after_its_time_whatever_tool_is_asked(
    asked: Path, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "SECONDS", 0.5)
    questions = [("query", {"sql": ENDLESS}), ("top", {"where": f"duration_ns > ({ENDLESS})"})]
    for answer in ask(asked, questions):
        assert answer["cannot_answer"] == "because cancelled after 0.5 s"
    assert all(ending.seconds_of(tool) > ending.SECONDS for tool in RUNS)


def test_a_statement_ends_when_the_client_does_not_wait_any_more(
    asked: Path, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcp import Client

    from kerneldb.agents import server

    began, ends = threading.Event(), list[BaseException]()

    def noted(con: duckdb.DuckDBPyConnection, work: Callable[[], Any]) -> Any:
        began.set()
        try:
            return interruptible(con, work)
        except BaseException as error:
            ends.append(error)
            raise

    async def conversation() -> Any:
        async with Client(server.server(kerneldb.open(asked, create=False))) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "query", {"sql": ENDLESS})
                await anyio.to_thread.run_sync(began.wait)
                group.cancel_scope.cancel()
            return (await client.call_tool("query", {"sql": "SELECT 6 * 7 AS n"})).structured_content

    monkeypatch.setattr(ending, "SECONDS", 1e6)
    monkeypatch.setattr(answers, "interruptible", noted)
    assert anyio.run(conversation)["rows"] == [[42]]
    assert [type(error) for error in ends] == [duckdb.InterruptException]
    assert ask(asked, [("query", {"sql": "SELECT 6 * 7 AS n"})])[0]["rows"] == [[42]]


def test_what_fails_unforeseen_is_raised_as_it_is_and_what_waits_for_a_thread_may_leave(asked: Path) -> None:
    def broken() -> Any:
        raise ZeroDivisionError

    async def leave() -> str:
        none_free = anyio.to_thread.current_default_thread_limiter()
        none_free.total_tokens = 1
        async with anyio.create_task_group() as group:
            group.start_soon(ending.awaited, lambda: of_query(kerneldb.open(asked), ENDLESS, Page()), 1e6)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(ending.awaited, broken, 1e6)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        return "left"

    with pytest.raises(ZeroDivisionError):
        anyio.run(ending.awaited, broken, 1e6)
    assert anyio.run(leave) == "left"
