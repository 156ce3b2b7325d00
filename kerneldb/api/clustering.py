"""Ingest on many machines: tasks of Ray that convert and commit traces wherever there is room.

A task is tried again when its worker or its node is lost. That is safe: it commits to a lake, which takes a trace once,
however often that is tried (`kerneldb.warehouse.transfer`).
"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.ingestion import IngestOptions, Outcome, plan_units
from kerneldb.errors import TraceError, UsageError
from kerneldb.warehouse.place import masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kerneldb.warehouse.place import Place

RETRIES: Final = 5
"""How many workers in a row a trace may lose."""
PASSED_ON: Final = ("AWS_", "PG", "KERNELDB_")
"""Variables that tasks see as the caller does: keys of S3, and what PostgreSQL's library reads."""
TASK_TIMEOUT_S: Final = 600.0
"""How long a task waits for the commits of others."""
ADDRESS: Final = re.compile(r"ray://.+|auto|local|\[?[\w.:-]+\]?:\d+")


def is_address(text: str) -> bool:
    """Whether `text` is an address of Ray, and no path: host:port, ray://…, auto or local."""
    return ADDRESS.fullmatch(text) is not None and not Path(text).exists()


def ingest_with_ray(
    database: str, paths: Sequence[Path], options: IngestOptions, address: str | None
) -> Iterator[Outcome]:
    """Ingest the traces behind `paths` into the lake `database`, one task each, yielding outcomes as they come.

    Tasks read the files themselves, so all nodes must see them under the same paths. Without `address`, RAY_ADDRESS
    says which cluster; without that, Ray runs on this machine. Raises UsageError without Ray, and for a database file.
    """
    units, failed = plan_units(paths, options)
    yield from failed
    ray = connected(address)
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(ingest_unit)
    plain = dataclasses.replace(options, shard=None)
    variables = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    arguments = (database, plain, variables)
    places = {unit.files: unit.path for unit in units}  # the traces of an archive are one task
    pending = {task.remote([str(file) for file in read], *arguments): path for read, path in places.items()}
    while pending:
        (done,), _ = ray.wait(list(pending), num_returns=1)
        yield from _result(ray, done, pending.pop(done))


def require_lake(place: Place) -> None:
    """Raise UsageError where the database is a file: tasks on other machines cannot write to it."""
    if not place.is_lake:
        message = f"--ray needs a lake, which many machines can write (kerneldb db init makes one); {place} is a file"
        raise UsageError(message)


def ingest_unit(
    files: Sequence[str], database: str, options: IngestOptions, variables: Mapping[str, str]
) -> list[Outcome]:
    """Convert the files of one trace and commit it; the work of a task, which runs in a process of its own."""
    from kerneldb import api

    os.environ.update(variables)
    return list(api.open(database, lock_timeout=TASK_TIMEOUT_S).ingest_each(files, options))


def connected(address: str | None) -> Any:
    """The package ray, connected to the cluster at `address`. Raises UsageError where either is missing."""
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UsageError("--ray needs the package ray: pip install 'kerneldb[cluster]'") from error
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level="WARNING")
        except Exception as error:  # where a node does not start, Ray raises this and no subclass of it
            where = address or os.environ.get("RAY_ADDRESS") or "this machine"
            raise UsageError(f"no Ray cluster at {where}: {masked(str(error))}") from error
    return ray


def _result(ray: Any, done: Any, path: Path) -> list[Outcome]:
    try:
        outcomes: list[Outcome] = ray.get(done)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)  # what the task raised, where it was not the worker that was lost
        what = "no worker lived long enough to ingest it: " if cause is None else ""
        lost = TraceError(f"{path}: {what}{masked(next(iter(str(cause or error).splitlines()), ''))}")
        lost.__cause__ = error
        return [Outcome(path, "failed", error=lost)]
    return outcomes
