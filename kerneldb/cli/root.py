"""The root of the command line: global options, and errors turned into messages and exit codes."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import click

from kerneldb.errors import KerneldbError

DEFAULT_DATABASE = "kernels.duckdb"
INTERRUPTED = 130


@dataclasses.dataclass
class Settings:
    """What holds for the whole call: the database file, or the text that names a lake."""

    database: str | Path = Path(DEFAULT_DATABASE)


class Failure(click.ClickException):
    """A kerneldb error on its way to stderr, with the exit code of its class."""

    exit_code: int  # type: ignore[misc]  # click declares one per class; here each error brings its own

    def __init__(self, error: KerneldbError) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code


class Interrupted(click.ClickException):
    """Ctrl-C. Exit code 130, as shells report a process ended by SIGINT."""

    exit_code = INTERRUPTED

    def __init__(self) -> None:
        super().__init__("interrupted; the database is as it was before the unfinished step")


def _close_quietly() -> None:
    """Let what is left go nowhere: the reader of stdout (`| head`) has what it wants, which is no failure."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Root(click.Group):
    """The group `kerneldb`; every command runs inside its error boundary."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The commands in the order in which they are used, not by letter."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Errors that kerneldb raises on purpose become one message; others stay tracebacks."""
        try:
            return super().invoke(ctx)
        except KerneldbError as error:
            raise Failure(error) from error
        except KeyboardInterrupt as error:
            raise Interrupted from error
        except BrokenPipeError:
            _close_quietly()
            ctx.exit()
        except OSError as error:
            if error.errno is None or error.strerror is None:
                raise
            message = f"{error.filename or 'output'}: {error.strerror}"
            raise click.ClickException(message) from error
