"""Python processes of our own: how they are started, and how they import the modules that a user names (`--import`).

The folder that a user stands in may come from anyone, with a `numpy.py` in it: no such file may run because a process
was started there. `python -m` searches that folder first; with `-P` it does not.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kerneldb import files
from kerneldb.replay.errors import FAILURES, ReplayError, first_line

LEAST_BYTES: Final = 1 << 30
"""What a process may take of the host memory, however little is free."""
REGISTRIES: Final = (("kerneldb.replay.routes", "Route"), ("kerneldb.replay.rewrites", "Rewrite"))
"""What a named module may extend: a package with `known`, and the class whose subclasses it registers."""


def die_with_parent(by: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel for a signal when the host dies: a hung call would otherwise hold the GPU for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, by)  # PR_SET_PDEATHSIG


def bound_memory(share: float = 0.5) -> None:
    """Let this process take a share of the host memory that is free, and no more.

    What a plan asks for beyond that fails as on a full GPU, and is told of its item. Without a bound the system, which
    promises more memory than it has, would slow down and end processes at random.
    """
    if sys.platform == "linux":
        import resource

        held = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5]) * resource.getpagesize()
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = held + max(int(share * files.free_memory()), LEAST_BYTES)
        resource.setrlimit(
            resource.RLIMIT_DATA, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most)
        )


def command(module: str, *arguments: str) -> tuple[str, ...]:
    """The command line that runs `module`; what is imported there does not come from the current folder."""
    return (sys.executable, "-P", "-m", module, *arguments)


def environment() -> dict[str, str]:
    """Our environment, in which a process also finds a kerneldb that runs from its sources."""
    sources = Path(str(sys.modules["kerneldb"].__file__)).parents[1]
    if sources.name in {"site-packages", "dist-packages"}:
        return dict(os.environ)
    paths = (str(sources), os.environ.get("PYTHONPATH"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Around the import of large libraries, which stay: the collector walking through them is a third of its time."""
    collecting, known = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > known:
            gc.freeze()
        if collecting:
            gc.enable()


def import_named(module: str) -> None:
    """Import a module that the user names.

    The current folder counts only where nothing of that name is found elsewhere, behind all else, and only until the
    module is imported: the folder of what it imports by itself later must stand in PYTHONPATH.
    """
    found = importlib.util.find_spec(module.partition(".")[0])
    # A package without a file is folders, of which there may be more.
    if found is not None and found.origin is not None:
        importlib.import_module(module)
        return
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        importlib.import_module(module)
    finally:
        sys.path.reverse()
        sys.path.remove(here)  # the last one
        sys.path.reverse()


def import_all(modules: Sequence[str]) -> None:
    """Import the modules that the user names. Raises ReplayError where one cannot be, or leaves out a registration."""
    for module in modules:
        try:
            with importing():
                import_named(module)
        except (*FAILURES, ImportError, OSError, SyntaxError) as error:
            message = f"cannot import {module}: {error if isinstance(error, ImportError) else first_line(error)}"
            raise ReplayError(message) from error
        for name in unregistered(module):
            raise ReplayError(f"{module} does not register its class {name}: end it with `register({name}())`")


def unregistered(module: str) -> Iterator[str]:
    """The classes of an imported module that nobody would ask: routes and rewrites of which none is registered."""
    made = [kind for kind in vars(sys.modules[module]).values() if isinstance(kind, type) and kind.__module__ == module]
    for package, base in REGISTRIES:
        if registry := sys.modules.get(package):
            extended = [kind for kind in made if issubclass(kind, getattr(registry, base))]
            known = registry.known() if extended else ()
            yield from (kind.__name__ for kind in extended if not any(isinstance(one, kind) for one in known))
