"""The critical path: the chain of work on host threads, streams and ranks that decided when the last launch ended.

The graph comes from `schemas/queries/critical_*.sql`: what had to happen before what, and how long that takes (rules:
docs/why.md). A path is as long as the trace; what a part of it is worth says the same graph without that part.
"""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import itertools
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import selecting, table
from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kerneldb.api.queries import Connection
    from kerneldb.warehouse import Warehouse

PARTS: Final = ("runs", "points", "before", "nodes", "edges")
"""The statements `critical_<part>`, each of which reads those before it."""
KEYS: Final = {
    "cause": ("part", "cause"),
    "kernel": ("part", "kernel"),
    "op": ("part", "op"),
    "module": ("part", "module"),
    "line": ("part", "python_line"),
    "trace": ("part", "trace"),
}
"""What a path is summed by."""
UNKNOWN: Final = ("unattributed", "nothing known before")
STEPS: Final = "steps"
STEP: Final = (
    "start_ns", "duration_ns", "part", "cause", "call", "trace", "launch_index", "kernel", "op", "module",
    "python_line",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """A job: times of its nodes from the first one on, in order, and edges by target.

    `released` is before when a node cannot be, where nothing is known before it. `ends` are the ends of launches. The
    first node was at `begins_ns` of the clock of the job; the clock of a trace shows `shifts` more.
    """

    job: str
    times: list[int]
    ends: list[int]
    targets: list[int]
    sources: list[int]
    weights: list[int]
    is_wait: list[bool]
    facts: pa.Table
    released: list[int]
    begins_ns: int
    shifts: Mapping[str, int]

    def length(self, without: Collection[int] = ()) -> int:
        """How long it takes, in ns, where the edges `without` take no time and wait for nothing."""
        return max(map(self._come(without).__getitem__, self.ends))

    def _come(self, without: Collection[int] = ()) -> list[int]:
        """When each node comes at the earliest: the longest path to it."""
        come = self.released.copy()
        weights = list(self.weights)
        for edge in without:  # a time that no node has, so that the edge decides nothing
            weights[edge] = -1 - self.times[-1] if self.is_wait[edge] else 0
        for target, source, weight in zip(self.targets, self.sources, weights, strict=True):
            at = come[source] + weight
            if at > come[target]:  # noqa: PLR1730 - max() takes three times as long
                come[target] = at
        return come

    def path(self) -> tuple[int, list[int]]:
        """The edges of the longest path, from the first on, and the node that it begins with."""
        come = self._come()
        first = {target: edge for edge, target in reversed(list(enumerate(self.targets)))}
        node, found = max(self.ends, key=lambda end: (come[end], -end)), []
        while come[node] > self.released[node]:
            edge = first[node]
            while come[self.sources[edge]] + self.weights[edge] < come[node]:
                edge += 1
            found.append(edge)
            node = self.sources[edge]
        return node, found[::-1]


def graphs(con: Connection) -> list[Graph]:
    """The graph of each job, a trace of no job alone, of the launches that `con` reads as `selection`."""
    for part in PARTS:
        con.register(f"critical_{part}", table(con, f"critical_{part}"))
    nodes, edges = (con.table(f"critical_{part}").to_arrow_table() for part in ("nodes", "edges"))
    shifts = dict(con.table("critical_runs").select("trace", "shift_ns").distinct().fetchall())
    jobs = nodes["job"].to_pylist()
    begins = [0, *itertools.accumulate(len(list(group)) for _, group in itertools.groupby(jobs))]
    targets = edges["target"].to_pylist()
    return [
        _graph(jobs[begin], begin, nodes.slice(begin, end - begin), edges.slice(first, last - first), shifts)
        for begin, end in itertools.pairwise(begins)
        for first, last in [(_at(targets, begin), _at(targets, end))]
    ]


def _at(targets: list[int], node: int) -> int:
    import bisect

    return bisect.bisect_left(targets, node)


def _graph(job: str, begin: int, nodes: pa.Table, edges: pa.Table, shifts: Mapping[str, int]) -> Graph:
    """A job whose nodes are numbered from `begin` on."""
    moments = nodes["ts_ns"].to_pylist()
    times = [moment - moments[0] for moment in moments]
    targets, sources = ([number - begin for number in edges[name].to_pylist()] for name in ("target", "source"))
    weights = edges["weight_ns"].to_pylist()
    released = times.copy()
    for target, source, weight in zip(targets, sources, weights, strict=True):
        if times[source] + weight == times[target]:
            released[target] = 0
    ends = [number for number, is_end in enumerate(nodes["is_end"].to_pylist()) if is_end]
    waits = edges["is_wait"].to_pylist()
    return Graph(job, times, ends, targets, sources, weights, waits, edges, released, moments[0], shifts)


def in_traces(con: Connection) -> Iterator[dict[str, Any]]:
    """The steps of the critical path of each job, by the clocks of the traces, of what `con` reads as `selection`.

    That nothing is known before the first is a step of its trace, too.
    """
    for graph in graphs(con):
        steps = list(_steps(graph))
        known = {name: None for step in steps for name in step}
        first = next((step["trace"] for step in steps if step.get("trace") is not None), None)
        for place, step in enumerate(steps):
            if (trace := step.get("trace") or (None if place else first)) is not None:
                start = step["start_ns"] + graph.begins_ns + graph.shifts[trace]
                yield known | step | {"trace": trace, "start_ns": start}


def critical_path(
    warehouse: Warehouse, key: str, where: str | None, traces: Sequence[str], most: int | None = None
) -> pa.Table:
    """The critical path of each job by `key` (see KEYS), most time first, or its `steps`, in order.

    Of sums, `saved_ns` is how much sooner the last launch would end if all that the row is about took no time, on the
    path or not: less than the row where other work is then what everything waits for. `most` rows of a job.
    """
    import pyarrow as pa

    with selecting(warehouse, where, traces) as con:
        found = graphs(con)
    rows = itertools.chain.from_iterable(_steps(one) if key == STEPS else _sums(one, key, most) for one in found)
    return pa.Table.from_pylist(list(rows), pa.schema(_schema(key)))


def what_if(warehouse: Warehouse, parts: Sequence[str], where: str | None, traces: Sequence[str]) -> pa.Table:
    """How long each job takes, and how long it would if all `parts` took no time.

    Each is a key (part, or one of KEYS), `=` and a name or pattern: `kernel=*gemm*`; it may be work beside the path.
    Raises UsageError for an unknown key.
    """
    import pyarrow as pa

    wanted = [_wanted(part) for part in parts]
    rows = []
    with selecting(warehouse, where, traces) as con:
        found = graphs(con)
    for graph in found:
        named = [(graph.facts[column].to_pylist(), pattern) for column, pattern in wanted]
        edges = {
            edge
            for names, pattern in named
            for edge, name in enumerate(names)
            if name is not None and fnmatch.fnmatchcase(name, pattern)
        }
        length, left = graph.length(), graph.length(edges)
        rows.append(
            {"job": graph.job, "n": len(edges), "length_ns": length, "left_ns": left, "saved_ns": length - left}
        )
    kinds = [("job", pa.string()), *((name, pa.int64()) for name in ("n", "length_ns", "left_ns", "saved_ns"))]
    return pa.Table.from_pylist(rows, pa.schema(kinds))


def _wanted(part: str) -> tuple[str, str]:
    """Column and pattern of a part."""
    key, _, pattern = part.partition("=")
    column = {"part": "part"} | {name: columns[1] for name, columns in KEYS.items()}
    if key not in column or not pattern:
        raise UsageError(f"{part!r}: give one of {', '.join(column)}, then = and a name or pattern, as kernel=*gemm*")
    return column[key], pattern


def _schema(key: str) -> list[tuple[str, pa.DataType]]:
    import pyarrow as pa

    text, count = pa.string(), pa.int64()
    if key == STEPS:
        numbers = ("start_ns", "duration_ns", "launch_index")
        return [("job", text), *((name, count if name in numbers else text) for name in STEP)]
    figures = [("n", count), ("path_ns", count), ("share_pct", pa.float64()), ("saved_ns", count)]
    return [("job", text), ("part", text), (key, text), *figures]


def _steps(graph: Graph) -> Iterator[dict[str, Any]]:
    """The edges of the path that take time, with what they are; `start_ns` is from the first node on."""
    node, path = graph.path()
    if graph.released[node]:
        part, cause = UNKNOWN
        yield {"job": graph.job, "start_ns": 0, "duration_ns": graph.released[node], "part": part, "cause": cause}
    facts = graph.facts.take(path).to_pylist()
    for edge, fact in zip(path, facts, strict=True):
        if weight := graph.weights[edge]:
            yield {"job": graph.job, "start_ns": graph.times[graph.sources[edge]], "duration_ns": weight} | fact


def _sums(graph: Graph, key: str, most: int | None) -> Iterator[dict[str, Any]]:
    node, path = graph.path()
    length = graph.length()
    names = list(zip(*(graph.facts[column].to_pylist() for column in KEYS[key]), strict=True))
    counts = collections.Counter(names[edge] for edge in path if graph.weights[edge])
    spent: collections.Counter[tuple[str, str | None]] = collections.Counter()
    for edge in path:
        spent[names[edge]] += graph.weights[edge]
    if graph.released[node]:
        counts[UNKNOWN] += 1
        spent[UNKNOWN] += graph.released[node]
    edges = collections.defaultdict(list)
    for edge, name in enumerate(names):
        edges[name].append(edge)
    largest = sorted(((name, ns) for name, ns in spent.items() if ns), key=lambda one: (-one[1], str(one[0])))
    for name, ns in largest[:most]:
        saved = length - graph.length(edges[name])
        figures = {"n": counts[name], "path_ns": ns, "share_pct": 100 * ns / length, "saved_ns": saved}
        yield {"job": graph.job, "part": name[0], key: name[1]} | figures
