"""`kerneldb mcp` and `kerneldb skill`: the database for agents."""

from __future__ import annotations

import click

from kerneldb.agents import RUNS
from kerneldb.cli.console import emit_text, note
from kerneldb.cli.options import READ_WAIT_S, open_database
from kerneldb.cli.root import cli


@cli.command(short_help="Serve the database to agents (Model Context Protocol).")
@click.option("--http", type=click.IntRange(1, 65535), metavar="PORT", help="Serve HTTP on 127.0.0.1 instead of stdio.")
@click.option(
    "--allow", multiple=True, type=click.Choice(RUNS), help="Let agents run this on the GPU and store what it measured."
)
def mcp(*, http: int | None, allow: tuple[str, ...]) -> None:
    """Serve the database to an agent, over stdin and stdout or HTTP of this machine (docs/mcp.md).

    Tools: schema, query, traces, top, why, diff, show, roofline, history, replays; replay, counters and improve.
    Every answer has the query that its numbers are from, or says why there is none. Nothing is written and nothing
    runs on a GPU, unless --allow names it: replay runs kernels again, counters reads them under Nsight Compute,
    improve tries rewrites in a recorded step.

    \b
      kerneldb mcp
      kerneldb mcp --http 8765 --allow replay --allow improve
    """
    from kerneldb.agents import server

    server.require()
    if http is not None:
        note(f"http://{server.HOST}:{http}/mcp, until Ctrl-C; whoever can use this machine can ask it")
    server.serve(open_database(lock_timeout=READ_WAIT_S), allow, http)


@cli.command(short_help="A page that tells agents how to ask the database.")
def skill() -> None:
    """Print a page (Markdown) for agents: order of work, rules, and what can be asked with an example each.

    \b
      kerneldb skill > SKILL.md
    """
    from kerneldb.agents import skill as pages
    from kerneldb.output import Output

    emit_text(pages.page(), Output())
