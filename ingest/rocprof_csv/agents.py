"""Which GPU a CSV cell means: `Agent 4` and `4` are numbers among all agents, `GPU 0` one among GPUs.

rocprofv3 counts agents by their logical node, with `--agent-index absolute` by the node of the driver; both numbers
stand in `agent_info.csv`, and nothing says which of them the cells are.
Source: rocprofiler-sdk, source/lib/output/metadata.cpp (`get_agent_index`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import polars as pl

from kerneldb.ingest.amd.agents import Agent, agent_of, numbered
from kerneldb.ingest.amd.agents import archs as archs_of

CELL: Final = re.compile(r"\s*(agent|gpu|cpu)?\s*(\d+)\s*", re.IGNORECASE)


class AgentMap:
    """Agents of `agent_info.csv`; without one, absolute numbers stand for devices, counted in `guessed`."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        found = numbered(agent_of({_key(name): value for name, value in row.items()}) for row in rows)
        self.agents: list[Agent] = found
        self._by_node, self._by_logical = (_by(found, name) for name in ("node_id", "logical_node_id"))
        self._absolute = not self._by_logical
        self.guessed = 0

    @property
    def archs(self) -> dict[int, str | None]:
        """Device → architecture."""
        return archs_of(self.agents)

    def devices(self, cells: pl.Series) -> pl.Series:
        """Device numbers; NULL for CPUs and for cells that name none."""
        distinct = [str(cell) for cell in cells.unique().drop_nulls()]
        self._absolute = self._absolute or any(self._is_absolute(cell) for cell in distinct)
        table = {cell: self._device(cell) for cell in distinct}
        if not self._by_node:
            absolute = [cell for cell in table if not cell.lower().startswith("gpu")]
            self.guessed += int(cells.is_in(absolute).sum())
        return cells.replace_strict(table, default=None, return_dtype=pl.Int32)

    def _is_absolute(self, cell: str) -> bool:
        """Whether the cell names an agent that only the driver's numbers know."""
        found = CELL.fullmatch(cell)
        if found is None or (found.group(1) or "agent").lower() != "agent":
            return False
        return int(found.group(2)) in self._by_node.keys() - self._by_logical.keys()

    def _device(self, cell: str) -> int | None:
        found = CELL.fullmatch(cell)
        if found is None or (found.group(1) or "").lower() == "cpu":
            return None
        number = int(found.group(2))
        if (found.group(1) or "").lower() == "gpu" or not self._by_node:
            return number
        agent = (self._by_node if self._absolute else self._by_logical).get(number)
        return agent.device if agent is not None and agent.is_gpu else None


def _key(name: str) -> str:
    return {"node": "node_id", "stat_name": "name"}.get(name, name.lower())


def _by(agents: Iterable[Agent], name: str) -> dict[int, Agent]:
    """Agents by a number that the file says of them."""
    return {int(agent.facts[name]): agent for agent in agents if str(agent.facts.get(name, "")).isdecimal()}
