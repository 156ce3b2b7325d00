"""The processes of one job: where each stands, and how they agree.

They agree through a key-value store beside the process group of the model, so that no exchange of theirs is among the
recorded ones, and a script can make a process group of its own.
"""

from __future__ import annotations

import datetime
import json
import socket
import time
from dataclasses import dataclass
from typing import Any, Final

HOST: Final = "127.0.0.1"
PATIENCE: Final = datetime.timedelta(minutes=30)
GOODBYE_S: Final = 10.0
POLL_S: Final = 0.01
LEFT: Final = "left"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process stands. `port` is that of the store, which rank 0 keeps; `script_port` is free for a script."""

    rank: int = 0
    world_size: int = 1
    port: int = 0
    script_port: int = 0

    def environment(self) -> dict[str, str]:
        """What torchrun tells a script about the place."""
        ranks = dict.fromkeys(("RANK", "LOCAL_RANK"), str(self.rank))
        sizes = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(self.world_size))
        return {**ranks, **sizes, "MASTER_ADDR": HOST, "MASTER_PORT": str(self.script_port)}


class Ranks:
    """The processes of a job, as one of them sees them. All must ask for the same things in the same order.

    A process alone is a job of one, and needs no store.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._asked = 0
        self._store: Any = None
        self._joined = False

    @property
    def many(self) -> bool:
        """Whether there are others."""
        return self.place.world_size > 1

    def gather(self, value: Any) -> list[Any]:
        """The JSON-ready value of every rank, in their order; waits until all have given theirs."""
        if not self.many:
            return [value]
        store, number = self._opened(), self._asked
        self._asked += 1
        store.set(f"{number}/{self.place.rank}", json.dumps(value))
        return [json.loads(store.get(f"{number}/{rank}")) for rank in range(self.place.world_size)]

    def wait(self) -> None:
        """Until all are here."""
        self.gather(None)

    def join(self, device: str) -> None:
        """Make the process group of the model: NCCL or RCCL on GPUs, gloo on a CPU."""
        import torch
        import torch.distributed as dist

        on_gpu = device != "cpu"
        dist.init_process_group(
            "nccl" if on_gpu else "gloo",
            store=dist.PrefixStore("model", self._opened()),
            rank=self.place.rank,
            world_size=self.place.world_size,
            device_id=torch.device(device) if on_gpu else None,
        )
        self._joined = True

    def leave(self) -> None:
        """End the process group, when all are at their end; the keeper of the store goes last."""
        if self._store is None:
            return
        self.wait()
        if self._joined:
            import torch.distributed as dist

            dist.destroy_process_group()
        self._store.add(LEFT, 1)
        until = time.monotonic() + GOODBYE_S
        while self.place.rank == 0 and self._store.add(LEFT, 0) < self.place.world_size and time.monotonic() < until:
            time.sleep(POLL_S)

    def _opened(self) -> Any:
        if self._store is None:
            from torch.distributed import TCPStore

            place = self.place
            self._store = TCPStore(HOST, place.port, None, place.rank == 0, PATIENCE, wait_for_workers=False)
        return self._store


ALONE: Final = Ranks(Place())


def free_ports(count: int) -> list[int]:
    """Ports of this host that nobody uses now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
