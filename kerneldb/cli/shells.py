"""What click's completion of shells lacks: values behind `--option=`, and names with blanks and brackets in bash.

In quotes a shell takes nearly everything as it is: `open_quote` says which ones are open where somebody pressed Tab.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Any, Final

from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete
from click.shell_completion import add_completion_class as add

VARIABLE: Final = "_KERNELDB_COMPLETE"
ACTIVE: Final = re.compile(r"[$`\"\\!]")
"""What shells act on within double quotes."""

BASH: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' at=$COMP_CWORD i completion response
    local -a words=()

    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do  # bash takes --option=value apart
        if ((i > 0 && i < COMP_CWORD)) && [[ ${COMP_WORDS[i]} == "=" && ${COMP_WORDS[i - 1]} == --* ]]; then
            at=$((at - 1))
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done

    response=$(env COMP_WORDS="${words[*]}" COMP_CWORD=$at %(complete_var)s=bash_complete $1)

    while IFS= read -r completion; do
        case $completion in
            dir,*) COMPREPLY=(); compopt -o dirnames ;;
            file,*) COMPREPLY=(); compopt -o default ;;
            plain,*) COMPREPLY+=("${completion#*,}") ;;
        esac
    done <<< "$response"

    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """Hands over each offer as one word, whatever it is made of; click's script has bash expand patterns in it."""

    source_template = BASH


class _Joined(ShellComplete):
    """A shell in which `--option=value` is one word, and is replaced as one."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """As in click, with the option before each of its values."""
        name, equals, _ = incomplete.partition("=")
        found = super().get_completions(args, incomplete)
        if equals and name.startswith("--"):
            for item in found:
                item.value = f"{name}={item.value}"
        return found


class Zsh(_Joined, ZshComplete):
    """Zsh, with values behind `--option=`; in quotes that begin behind `=` it would add them to what is written."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """As in the other shells, but nothing in such quotes."""
        behind_equals = incomplete.startswith("--") and "=" in incomplete
        return [] if behind_equals and open_quote() else super().get_completions(args, incomplete)


class Fish(_Joined, FishComplete):
    """Fish, with values behind `--option=`, and names and help with commas whole."""

    source_template = FishComplete.source_template.replace(
        '(string split "," $completion)', '(string split --max 1 "," $completion)'
    )


def register() -> None:
    """Have click use these."""
    for kind in (Bash, Zsh, Fish):
        add(kind)


def open_quote() -> str:
    """The quote that is open where a shell asks for completion; empty where none is."""
    lexer = shlex.shlex(os.environ.get("COMP_WORDS", ""), posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        list(lexer)
    except ValueError:
        return str(vars(lexer)["state"] or "")
    return ""
