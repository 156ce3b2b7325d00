"""A database that agents ask, and a way to ask it as they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import kerneldb
from tests.conftest import made_once

if TYPE_CHECKING:
    from pathlib import Path

Question = tuple[str, dict[str, Any]]
Answers = list[dict[str, Any]]


@pytest.fixture(scope="session")
def asked(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two real traces, one of them with a commit."""

    def make(path: Path) -> None:
        database = kerneldb.open(path)
        database.ingest(root / "tests" / "fixtures" / "train-step-h200.json.gz", name="train")
        tags = {"commit": "abcdef1" * 5, "workload": "decode"}
        database.ingest(root / "examples" / "decoder-h200.json.gz", tags=tags)

    return made_once(tmp_path_factory, "agents.duckdb", make)


@pytest.fixture(scope="session")
def ask() -> Callable[..., Answers]:
    """Put questions to a server in this process, over the SDK's own client."""
    pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'kerneldb[mcp]'")
    from mcp import Client

    from kerneldb.agents import server

    def put(path: Path, questions: Sequence[Question], allowed: Sequence[str] = ()) -> Answers:
        async def conversation() -> Answers:
            made = server.server(kerneldb.open(path, create=False), allowed)
            async with Client(made) as client:
                found = []
                for name, arguments in questions:
                    result = await client.call_tool(name, arguments)
                    assert result.structured_content is not None, (name, arguments, result)
                    found.append(result.structured_content)
                return found

        return anyio.run(conversation)

    return put
