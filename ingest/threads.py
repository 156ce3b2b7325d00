"""Work by threads: the libraries that do it hold no lock of Python meanwhile."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from kerneldb import files

Item = TypeVar("Item")
Result = TypeVar("Result")

POLL_SECONDS: Final = 0.05


def mapped(work: Callable[[Item], Result], items: Iterable[Item], most: int | None = None) -> Iterator[Result]:
    """The results of `work` in the order of `items`, as many ahead as there are processors: memory stays bounded.

    `items` are taken on the thread that takes the results. No more than `most` are worked on at once.
    """
    cores = min(files.cores(), most or files.cores())
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(cores, thread_name_prefix="kerneldb-columns") as pool:
        for item in items:
            if len(pending) == cores:
                yield pending.popleft().result()
            pending.append(pool.submit(work, item))
        while pending:
            yield pending.popleft().result()


def ahead(produce: Callable[[], Iterator[Item]], queued: int) -> Generator[Item, None, None]:
    """Run `produce` on a thread and yield its items, of which so many may wait; its exception is raised here.

    Close it when leaving early (`contextlib.closing`): the thread would wait for ever.
    """
    items: queue.Queue[tuple[Item] | None] = queue.Queue(queued)
    stop = threading.Event()

    def offer(item: tuple[Item] | None) -> None:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                items.put(item, timeout=POLL_SECONDS)
                return

    def run() -> None:
        try:
            for item in produce():
                offer((item,))
                if stop.is_set():
                    return
        finally:
            offer(None)

    with ThreadPoolExecutor(1, thread_name_prefix="kerneldb-ahead") as pool:
        running = pool.submit(run)
        try:
            while (item := items.get()) is not None:
                yield item[0]
            running.result()
        finally:
            stop.set()
