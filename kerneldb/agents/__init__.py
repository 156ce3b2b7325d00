"""The database for agents: a server of the Model Context Protocol, and a page that says how to ask.

An answer carries the query that its numbers are from, or says why there is none. Texts of traces are data.
"""

from __future__ import annotations

from typing import Final

RUNS: Final = ("replay", "counters", "improve")
"""Tools that run something on a device and store what it measured: each only where the user allows it by name."""
