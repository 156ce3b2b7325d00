"""Whether the last launch of a details page is whole: a page that is cut at a line end looks like a whole one."""

from __future__ import annotations

import collections
import dataclasses

from kerneldb.ingest.ncu.kernels import Kernel


@dataclasses.dataclass(slots=True)
class Whole:
    """The metrics of each section that all launches but the last one have at least."""

    least: dict[str, int] = dataclasses.field(default_factory=dict)
    last: dict[str, int] = dataclasses.field(default_factory=dict)
    launches: int = 0

    def see(self, kernel: Kernel) -> None:
        """Take the next launch of the page into account; other pages have a launch per line."""
        if kernel.page != "details":
            return
        if self.launches:
            known = self.least if self.launches > 1 else self.last
            self.least = {name: min(known[name], self.last[name]) for name in known.keys() & self.last.keys()}
        self.last = dict(collections.Counter(one.section or "" for one in kernel.printed))
        self.launches += 1

    @property
    def missing(self) -> int:
        """Metrics that all other launches have and the last one has not; 0 where nothing tells."""
        return sum(max(least - self.last.get(name, 0), 0) for name, least in self.least.items())
