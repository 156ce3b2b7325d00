"""Work on columns by threads: the libraries that do it hold no lock of Python meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from kerneldb import files

Item = TypeVar("Item")
Result = TypeVar("Result")


def mapped(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """The results of `work` in the order of `items`, as many ahead as there are processors: memory stays bounded."""
    cores = files.cores()
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(cores, thread_name_prefix="kerneldb-columns") as pool:
        for item in items:
            if len(pending) == cores:
                yield pending.popleft().result()
            pending.append(pool.submit(work, item))
        while pending:
            yield pending.popleft().result()
