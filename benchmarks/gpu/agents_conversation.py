"""A conversation of an agent with `kerneldb mcp`, from verdict to gate, on the nights of record_nights.py.

    python benchmarks/gpu/agents_conversation.py DATABASE FOLDER [--device cuda:0] [--seconds 60]

DATABASE holds the nights (`night-029` before the slower ones, `night-035` among them) with commits, and the steps
recorded with stacks as `decoder-step`. Each call and its answer go to FOLDER/conversation.jsonl; the patch of improve
is run as its user would run it, and what comes of it is compared with the night before it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters, stdio_client

PROGRAM = str(Path(__file__).with_name("record_nights.py"))
TANH = "short_name LIKE '%tanh%'"


def calls(device: str, seconds: float) -> list[tuple[str, dict[str, Any]]]:
    """What is asked before the patch."""
    nights = ["night-029", "night-035"]
    return [
        ("history", {"workload": "decoder", "subject": "kernel", "fail_on_pct": 1.0}),
        ("why", {"trace": "night-035"}),
        ("top", {"traces": ["night-035"], "limit": 5}),
        ("replay", {"where": TANH, "traces": nights, "device": device}),
        ("improve", {"trace": "decoder-step", "iteration": "step 7", "seconds": seconds, "device": device}),
    ]


async def converse(options: argparse.Namespace) -> None:
    """Ask, patch, measure again, compare."""
    arguments = ["-m", "kerneldb", "--db", str(options.database), "mcp", "--allow", "replay", "--allow", "improve"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    with (options.folder / "conversation.jsonl").open("w") as file:

        async def say(client: Client, tool: str, asked: dict[str, Any]) -> dict[str, Any]:
            began = time.monotonic()
            answer: dict[str, Any] = (await client.call_tool(tool, asked)).structured_content or {}
            line = {"tool": tool, "arguments": asked, "seconds": round(time.monotonic() - began, 2), "answer": answer}
            file.write(json.dumps(line) + "\n")
            file.flush()
            sys.stderr.write(f"{tool}: {line['seconds']} s, {answer.get('cannot_answer', 'answered')}\n")
            return answer

        async with Client(stdio_client(server)) as client:
            answers = [await say(client, tool, asked) for tool, asked in calls(options.device, options.seconds)]
            patch = answers[-1].get("patch")
            if patch:
                _patched(options, patch)
                await say(client, "diff", {"before": "night-035", "after": "patched", "fail_on_pct": 1.5, "limit": 5})
            await say(client, "diff", {"before": "night-029", "after": "night-035", "fail_on_pct": 1.5, "limit": 3})


def _patched(options: argparse.Namespace, patch: str) -> None:
    """Run the program with the patch, as one more night, and ingest its trace."""
    path, trace = options.folder / "faster.py", options.folder / "patched.json.gz"
    path.write_text(patch)
    program = [PROGRAM, "--trace", str(trace), "--slower", "1", "--seconds", "5", *(["--tiny"] if options.tiny else [])]
    subprocess.run([sys.executable, str(path), *program], check=True)
    subprocess.run(
        [sys.executable, "-m", "kerneldb", "--db", str(options.database), "ingest", str(trace), "--name", "patched"],
        check=True,
    )


def main() -> None:
    """Read the options, and talk."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("database", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    anyio.run(converse, options)


if __name__ == "__main__":
    main()
