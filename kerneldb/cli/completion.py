"""`kerneldb completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in SHELL.

    \b
      kerneldb completion bash > ~/.local/share/bash-completion/completions/kerneldb
      kerneldb completion zsh > "${fpath[1]}/_kerneldb"
      kerneldb completion fish > ~/.config/fish/completions/kerneldb.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        message = f"no completion for {shell}"
        raise click.UsageError(message)
    click.echo(kind(ctx.find_root().command, {}, "kerneldb", "_KERNELDB_COMPLETE").source())
