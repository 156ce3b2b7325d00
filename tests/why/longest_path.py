"""The graph of the critical path in plain Python, from the rules of docs/why.md, and its longest path by recursion."""

from __future__ import annotations

import bisect
import collections
import re
import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kerneldb.api import Database

    Row = dict[str, Any]
    Node = tuple[str, Any]

END, BEGIN, LAUNCH = range(3)
UNKNOWN_NS, LATE_NS, SILENT_NS = 100_000, 10_000, 100_000
WAITING = {"synchronisation", "blocking copy"}
RUNS = """
    SELECT l.* EXCLUDE (rank), coalesce(j.wait_ns IS NOT NULL, false) AS is_split, j.transfer_ns, j.rank,
        concat_ws(' ', j.group_ranks, j.operation, j.collective_seq, j.ordinal) AS instance
    FROM kernels AS l LEFT JOIN collective_instances() AS j USING (trace_id, launch_index)
    WHERE l.trace IN (SELECT unnest($traces)) AND l.timing = 'timeline'
"""


class Program:
    """The launches and host points of the traces of one job, with `edges[node]`: (source, weight, cause, is_wait)."""

    def __init__(self, database: Database, traces: Sequence[str]) -> None:
        def ask(sql: str) -> list[Row]:
            return database.sql(sql, params={"traces": list(traces)}).rows()

        of_these = "trace_id IN (SELECT trace_id FROM traces WHERE name IN (SELECT unnest($traces)))"
        self.runs = sorted(ask(RUNS), key=lambda run: (run["start_ns"], run["trace_id"], run["launch_index"]))
        self.calls = {(c["trace_id"], c["api_index"]): c for c in ask(f"FROM api_calls WHERE {of_these}")}
        self.ops = ask(f"FROM ops WHERE parent_id IS NULL AND {of_these}")
        self.syncs = ask(f"FROM sync_events WHERE {of_these}")
        named = "WITH chosen AS (FROM kernels WHERE trace IN (SELECT unnest($traces)) AND timing = 'timeline')"
        self.waits = ask(f"{named} FROM _host_waits('chosen')")
        self.times: dict[Node, int] = {}
        self.edges: dict[Node, list[tuple[Node, int, str, bool]]] = collections.defaultdict(list)
        self.launching: dict[Any, Row] = {}
        self._share_a_clock(traces)
        for run in self.runs:
            call = self.calls.get((run["trace_id"], run["api_index"]), {})
            run["thread"] = (call.get("process") or run["process"] or "", call.get("thread") or "")
            run["key"] = run["trace_id"], run["launch_index"]
            self.times["start", run["key"]] = run["start_ns"]
            self.times["end", run["key"]] = run["end_ns"]
        for trace in {run["trace_id"] for run in self.runs}:
            self._host(trace)
            self._starts(trace)
        self._runs()

    def _share_a_clock(self, traces: Sequence[str]) -> None:
        """Collectives end at the same time on all ranks, by the median."""
        ends: dict[str, dict[str, int]] = collections.defaultdict(dict)
        for run in self.runs:
            if run["is_split"]:
                ends[run["trace"]][run["instance"]] = run["end_ns"]
        self.shift: dict[str, int] = {}
        for run in self.runs:
            own, first = ends[run["trace"]], ends[min(traces)]
            apart = [own[one] - first[one] for one in own if one in first]
            if run["trace_id"] not in self.shift:
                self.shift[run["trace_id"]] = statistics.median_low(apart) if apart else 0
            for name in ("start_ns", "end_ns", "launch_start_ns"):
                if run[name] is not None:
                    run[name] -= self.shift[run["trace_id"]]

    def _edge(self, target: Node, source: Node, weight: int, cause: str, *, is_wait: bool = False) -> None:
        if self._order(source) < self._order(target):
            self.edges[target].append((source, weight, cause, is_wait))

    def _order(self, node: Node) -> tuple[int, int, Any]:
        kind, key = node
        zero = kind == "end" and self.times["start", key] == self.times[node]
        return self.times[node], {"end": 3 if zero else 0, "point": 1, "start": 2}[kind], key

    # The host

    def _host(self, trace: str) -> None:
        """The points of all launching threads of a trace, and the edges between them."""
        runs = [run for run in self.runs if run["trace_id"] == trace and run["launch_start_ns"] is not None]
        if not runs:
            return
        threads: dict[Any, list[Row]] = collections.defaultdict(list)
        seen = set()
        for run in runs:
            call = run["process"], run["api_index"], run["launch_start_ns"]
            if call not in seen:
                seen.add(call)
                threads[run["thread"]].append(
                    {"at": run["launch_start_ns"], "kind": LAUNCH, "call": call, "wait": None}
                )
        first = min(run["launch_start_ns"] for run in runs)
        for number, (thread, points) in enumerate(sorted(threads.items())):
            last = max(point["at"] for point in points)
            for wait in self._held(trace, thread, first, last):
                points += [
                    {"at": wait["begun"], "kind": BEGIN, "wait": wait},
                    {"at": wait["ended"], "kind": END, "wait": wait},
                ]
            for point in points:
                point["thread"], point["lane"] = thread, number
        every = sorted(
            (p for points in threads.values() for p in points), key=lambda p: (p["at"], p["lane"], p["kind"])
        )
        before: dict[Any, Row] = {}
        begun: dict[Any, list[Row]] = collections.defaultdict(list)
        for number, point in enumerate(every):
            point["node"] = ("point", (trace, number))
            self.times[point["node"]] = point["at"]
            if point["kind"] == LAUNCH:
                self.launching[trace, point["call"]] = point
            self._link(trace, point, before, begun[point["thread"]])
            before[point["thread"]] = before[point["thread"][0]] = point
            if point["kind"] == BEGIN:
                begun[point["thread"]].append(point["wait"])

    def _held(self, trace: str, thread: tuple[str, str], first: int, last: int) -> Iterator[Row]:
        shift = self.shift[trace]
        for wait in self.waits:
            here = wait["trace_id"] == trace and all(
                given is None or given == own
                for given, own in zip((wait["process"], wait["thread"]), thread, strict=True)
            )
            if here and wait["end_ns"] - shift > first and wait["start_ns"] - shift < last:
                yield wait | {"begun": max(wait["start_ns"] - shift, first), "ended": wait["end_ns"] - shift}

    def _link(self, trace: str, point: Row, before: dict[Any, Row], begun: list[Row]) -> None:
        """The edges to a point: from the one before it, and from what it waited for."""
        other, own = before.get(point["thread"][0]), before.get(point["thread"])
        if other is None:
            return
        begun[:] = [wait for wait in begun if own and wait["ended"] > own["at"]]
        held = min(begun, key=lambda w: (w["precedence"], -w["end_ns"], -w["number"]), default=None)
        silent = own is None or (
            other is not own
            and point["at"] - own["at"] >= 100_000
            and held is None
            and not self._inside(trace, point, own)
        )
        source, cause = (other, "launching") if silent else (own, held["cause"] if held else "launching")
        assert source is not None
        weight = point["at"] - source["at"]
        if point["kind"] == END and (
            point["wait"]["cause"] in WAITING or re.search("free", point["wait"]["name"], re.I)
        ):
            run = self._awaited(trace, point)
            if (
                run is not None
                and (run["launch_start_ns"] if run["launch_start_ns"] is not None else run["start_ns"]) <= source["at"]
            ):
                weight = point["at"] - max(source["at"], run["end_ns"])
                self._edge(point["node"], ("end", run["key"]), weight, cause, is_wait=True)
        self._edge(point["node"], source["node"], weight, cause)

    def _inside(self, trace: str, point: Row, own: Row) -> bool:
        """Whether the thread was in an operator from `own` on until `point`."""
        at = own["at"] + self.shift[trace]
        begun = [
            op
            for op in self.ops
            if op["trace_id"] == trace
            and (op["process"] or "", op["thread"] or "") == point["thread"]
            and op["start_ns"] <= at
        ]
        if not begun:
            return False
        last = max(begun, key=lambda op: op["start_ns"])
        return bool(last["start_ns"] + last["duration_ns"] - self.shift[trace] >= point["at"])

    def _awaited(self, trace: str, point: Row) -> Row | None:
        """The launch that a call waited for: its own copy, else the last on its stream, or on any."""
        wait = point["wait"]
        done = [run for run in self.runs if run["trace_id"] == trace and run["end_ns"] <= point["at"]]
        copied = [run for run in done if wait["api_index"] is not None and run["api_index"] == wait["api_index"]]
        if copied:
            return copied[-1]
        call = self.calls.get((trace, wait["api_index"]), {})
        streams = [
            sync["stream"] if sync["waits_on_stream"] is None else sync["waits_on_stream"]
            for sync in self.syncs
            if sync["trace_id"] == trace
            and sync["kind"] in {"stream_sync", "event_sync"}
            and sync["correlation_id"] == call.get("correlation_id", -1)
        ]
        stream = max((one for one in streams if one is not None), default=None)
        return self._last(run for run in done if stream in {None, run["stream"]})

    @staticmethod
    def _last(runs: Iterable[Row]) -> Row | None:
        """The one that ends last, of those that take time."""
        return max(
            (r for r in runs if r["end_ns"] > r["start_ns"]),
            key=lambda r: (r["end_ns"], r["start_ns"], r["launch_index"]),
            default=None,
        )

    # The GPU

    def _starts(self, trace: str) -> None:
        """What each launch of a trace had to wait for."""
        runs = [run for run in self.runs if run["trace_id"] == trace]
        self._befores(trace, runs)
        latency, pause = self._typical(runs)
        events = self._events(trace, runs)
        for run in runs:
            ready = []
            if run["stream_before"]:
                before = run["stream_before"]
                ready.append((("end", before["key"]), before["end_ns"], pause, "between launches"))
            if run["point"]:
                ready.append((run["point"]["node"], run["point"]["at"], latency, "launch latency"))
            other = events.get(run["key"]) or self._unexplained(run, ready)
            if other:
                ready.append((("end", other["key"]), other["end_ns"], 0, "dependency"))
            self._begin(run, ready)

    def _begin(self, run: Row, ready: list[tuple[Node, int, int, str]]) -> None:
        most = max((min(run["start_ns"], at + takes) for _, at, takes, _ in ready), default=0)
        for source, at, takes, cause in ready:
            expected = min(run["start_ns"], at + takes)
            binds = expected == most
            name = "unattributed" if binds and run["start_ns"] - expected > UNKNOWN_NS else cause
            weight = (run["start_ns"] if binds else expected) - at
            self._edge(("start", run["key"]), source, weight, name, is_wait=cause == "dependency")

    @staticmethod
    def _unexplained(run: Row, ready: list[tuple[Node, int, int, str]]) -> Row | None:
        """The last launch of the device before a start that neither call nor stream explain."""
        last = run["device_before"]
        if not ready or last is None or last["end_ns"] <= max(at for _, at, _, _ in ready):
            return None
        known = max(min(run["start_ns"], at + takes) for _, at, takes, _ in ready)
        return last if run["start_ns"] - known >= LATE_NS else None

    def _befores(self, trace: str, runs: list[Row]) -> None:
        """The call of each launch, and what ended last before it on its stream and its device."""
        ends: dict[Any, list[tuple[int, int]]] = collections.defaultdict(list)
        for number, run in enumerate(runs):
            point = self.launching.get((trace, (run["process"], run["api_index"], run["launch_start_ns"])))
            run["point"] = point if point and point["at"] <= run["start_ns"] else None
            run["place"] = run["device"], run["context"], run["stream"]
            if run["end_ns"] > run["start_ns"]:
                ends[run["place"]].append((run["end_ns"], number))
                ends[run["device"]].append((run["end_ns"], number))
        for one in ends.values():
            one.sort()

        def before(key: Any, at: int) -> Row | None:
            number = bisect.bisect_right(ends[key], (at, len(runs)))
            return runs[ends[key][number - 1][1]] if number else None

        for run in runs:
            run["stream_before"] = before(run["place"], run["start_ns"])
            run["device_before"] = before(run["device"], run["start_ns"])

    @staticmethod
    def _typical(runs: list[Row]) -> list[int]:
        """What a launch takes to start on an idle stream, and a stream from one queued launch to the next."""
        idle, queued = [], []
        for run in runs:
            if run["point"]:
                at, before = run["point"]["at"], run["stream_before"]
                if before is None or at >= before["end_ns"]:
                    idle.append(run["start_ns"] - at)
                if before and at <= before["end_ns"]:
                    queued.append(run["start_ns"] - before["end_ns"])
        return [statistics.median_low(one) if one else 0 for one in (idle, queued)]

    def _events(self, trace: str, runs: list[Row]) -> dict[Any, Row]:
        """Launch → the launch before the event that its stream waits for."""
        called = {c["correlation_id"]: c["start_ns"] for (of, _), c in self.calls.items() if of == trace}
        shift, found = self.shift[trace], {}
        launched = [run for run in runs if run["launch_start_ns"] is not None]
        for sync in self.syncs:
            if sync["trace_id"] != trace or sync["kind"] != "stream_wait_event" or sync["waits_on_stream"] is None:
                continue
            at = called.get(sync["correlation_id"], sync["start_ns"])
            recorded = called.get(sync["waits_on_correlation_id"], at)
            after = [
                run for run in launched if run["stream"] == sync["stream"] and run["launch_start_ns"] + shift >= at
            ]
            earlier = [
                run
                for run in launched
                if run["stream"] == sync["waits_on_stream"] and run["launch_start_ns"] + shift <= recorded
            ]
            if not after or not earlier:
                continue
            waits = min(after, key=lambda run: (run["launch_start_ns"], run["start_ns"], run["launch_index"]))
            of_call = [
                run for run in earlier if run["launch_start_ns"] == max(run["launch_start_ns"] for run in earlier)
            ]
            source = max(of_call, key=lambda run: (run["end_ns"], run["start_ns"], run["launch_index"]))
            chosen = found.get(waits["key"])
            if source["end_ns"] <= waits["start_ns"] and (chosen is None or source["end_ns"] > chosen["end_ns"]):
                found[waits["key"]] = source
        return found

    def _runs(self) -> None:
        """From start to end: the launch itself, or from where the last rank has come."""
        exchanges = collections.defaultdict(list)
        for run in self.runs:
            if run["is_split"]:
                exchanges[run["instance"]].append(run)
        for run in self.runs:
            late = (
                min(exchanges[run["instance"]], key=lambda r: (r["duration_ns"], r["rank"], r["trace"]))
                if run["is_split"]
                else run
            )
            waits = late is not run and run["start_ns"] <= late["start_ns"] <= run["end_ns"]
            weight = run["transfer_ns"] if waits else run["end_ns"] - run["start_ns"]
            target, cause = ("end", run["key"]), self._cause(run)
            self._edge(target, ("start", run["key"]), weight, cause)
            if waits:
                self._edge(target, ("start", late["key"]), run["end_ns"] - late["start_ns"], cause)

    @staticmethod
    def _cause(run: Row) -> str:
        if run["kind"] == "memcpy":
            return str(run["copy_kind"] or "copy")
        if run["category"] == "COMMUNICATION":
            return "transfer" if run["is_split"] else "unsplit"
        return str(run["category"] or "OTHER") if run["kind"] == "kernel" else str(run["kind"]).upper()

    def length(self, without: str | None = None) -> int:
        """The longest path to the end of a launch, in ns, where the cause `without` takes no time."""
        begin = min(self.times.values())
        came: dict[Node, int] = {}
        for end in (node for node in self.times if node[0] == "end"):
            stack = [end]
            while stack:
                node = stack[-1]
                missing = [source for source, *_ in self.edges[node] if source not in came]
                if node in came or not missing:
                    came.setdefault(node, self._come(node, came, begin, without))
                    stack.pop()
                stack += missing if node not in came else []
        return max(came.values())

    def _come(self, node: Node, came: dict[Node, int], begin: int, without: str | None) -> int:
        at = self.times[node]
        known = any(self.times[source] + weight == at for source, weight, _, _ in self.edges[node])
        found = [0 if known else at - begin]
        for source, weight, cause, is_wait in self.edges[node]:
            if cause != without:
                found.append(came[source] + weight)
            elif not is_wait:
                found.append(came[source])
        return max(found)
