"""A command that a server for agents starts: it ends with the server, whatever that dies of.

    python -m kerneldb.agents.child PID REPLAY …

PID is the server. The signal is that of Ctrl-C, so that the command stores what it has. Elsewhere than on Linux, a
command goes on to its end.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys

from kerneldb.replay.processes import die_with_parent


def end_with(server: int) -> None:
    """Have this process interrupted when `server`, which started it, dies; at once where it is dead already."""
    die_with_parent(signal.SIGINT)
    if os.getppid() != server:
        raise KeyboardInterrupt


def main() -> None:
    """Run the command behind the number of the server."""
    end_with(int(sys.argv.pop(1)))
    runpy.run_module("kerneldb", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
