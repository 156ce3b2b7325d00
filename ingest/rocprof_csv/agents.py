"""Which GPU a CSV cell means: `Agent 4` and `4` are numbers among all agents, `GPU 0` one among GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import polars as pl

from kerneldb.ingest.amd.agents import Agent, agent_of
from kerneldb.ingest.amd.agents import archs as archs_of

CELL: Final = re.compile(r"\s*(agent|gpu|cpu)?\s*(\d+)\s*", re.IGNORECASE)


class AgentMap:
    """Agents of `agent_info.csv`; without one, absolute numbers stand for devices, counted in `guessed`."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        found = [agent_of({_key(name): value for name, value in row.items()}) for row in rows]
        self.agents: list[Agent] = found
        self._by_node = {int(agent.facts["node_id"]): agent for agent in found if _is_number(agent, "node_id")}
        self.guessed = 0

    @property
    def archs(self) -> dict[int, str | None]:
        """Device → architecture."""
        return archs_of(self.agents)

    def devices(self, cells: pl.Series) -> pl.Series:
        """Device numbers; NULL for CPUs and for cells that name none."""
        table = {cell: self._device(str(cell)) for cell in cells.unique().drop_nulls()}
        if not self._by_node:
            absolute = [cell for cell in table if not str(cell).lower().startswith("gpu")]
            self.guessed += int(cells.is_in(absolute).sum())
        return cells.replace_strict(table, default=None, return_dtype=pl.Int32)

    def _device(self, cell: str) -> int | None:
        found = CELL.fullmatch(cell)
        if found is None or (found.group(1) or "").lower() == "cpu":
            return None
        number = int(found.group(2))
        if (found.group(1) or "").lower() == "gpu" or not self._by_node:
            return number
        agent = self._by_node.get(number)
        return agent.device if agent is not None and agent.is_gpu else None


def _key(name: str) -> str:
    return {"node": "node_id", "stat_name": "name"}.get(name, name.lower())


def _is_number(agent: Agent, name: str) -> bool:
    return str(agent.facts.get(name, "")).isdecimal()
