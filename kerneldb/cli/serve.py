"""`kerneldb serve`."""

from __future__ import annotations

import secrets

import click

from kerneldb.cli.console import note
from kerneldb.cli.options import READ_WAIT_S, open_database
from kerneldb.cli.root import cli


@cli.command(short_help="Reports and SQL in a browser, on this machine.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: a free one.")
def serve(port: int) -> None:
    """Show the database in a browser: its traces, their reports and timelines, comparisons, and a box for SQL.

    The address is printed; the token in it opens the pages, for programs of this machine only. Nothing can be changed,
    and no file can be read. Ctrl-C ends it.

    \b
      kerneldb serve
      kerneldb serve --port 8400
    """
    from kerneldb import report
    from kerneldb.report import serve as server

    report.require((*report.NEEDED, *server.NEEDED), "pages", "report,serve")
    database = open_database(lock_timeout=READ_WAIT_S)
    database.traces()
    token = secrets.token_urlsafe(24)
    with server.listening(port) as sock:
        sock.listen()
        click.echo(server.address(sock, token))
        note("Ctrl-C ends it")
        server.run(database, sock, token)
