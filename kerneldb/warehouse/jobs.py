"""Which traces are ranks of one job: decided by what ranks of a job must share, never by where their files are."""

from __future__ import annotations

import collections
import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

from kerneldb.schemas.loader import statement
from kerneldb.warehouse.statements import rows_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import duckdb

    from kerneldb.warehouse.links import Link

    Connection = duckdb.DuckDBPyConnection
    Facts = Mapping[str, Any]

NO_PROOF: Final = "ranks"
"""The method of links between ranks that nothing proves to have run together."""
ALIKE: Final = 0.9
"""So much of the collectives of two ranks must be the same where their profiles ran at the same time."""
SKEW_NS: Final = 10_000_000
"""Clocks of hosts that are kept by NTP differ by less: ranks leave a collective together."""
NUMBER: Final = re.compile(r"\d+")
ENOUGH: Final = 16
"""A new rank is held against so many ranks of a known job, and against the others where it fits none of these."""
HINTS: Final = 8
"""A new rank gets links to at most so many ranks that it may belong to."""
NEARER: Final = 10.0
"""Of two candidates for one rank, the one whose collectives end so many times nearer in time is the right one."""


@dataclasses.dataclass(slots=True)
class Evidence:
    """What one trace says about its job.

    `groups` are the ranks of its process groups. Of the collectives of each group, `counts` has how often which three
    follow each other, `sequences` the order of all as a hash and their number, `ends` when the first and the last ended
    (host clock, ns).
    """

    groups: set[str] = dataclasses.field(default_factory=set)
    counts: dict[str, dict[str, int]] = dataclasses.field(default_factory=lambda: collections.defaultdict(dict))
    sequences: dict[str, tuple[str, int]] = dataclasses.field(default_factory=dict)
    ends: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    models: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Two ranks held against each other: do they share process groups, collectives, a time and a model of GPU.

    `contradicts`: one is in a process group with the other that the other does not know. `together` is None where a
    clock is unknown. `collectives`: one has some, of any group. `alike` is the common share of those of shared groups
    (None: there are none), `same_order` whether each of those sequences is equal. `apart_ns` is how far the ends of the
    first and of the last collectives lie apart, `skew_ns` how far they do where they are nearest.
    """

    contradicts: bool
    together: bool | None
    groups: bool
    alike: float | None
    collectives: bool
    same_order: bool
    same_model: bool
    apart_ns: int | None
    skew_ns: int | None

    @property
    def is_disproved(self) -> bool:
        """Whether both cannot be of one job."""
        others = bool(self.together) and self.alike is not None and self.alike < ALIKE
        return self.contradicts or others or (self.skew_ns is not None and self.skew_ns > SKEW_NS)

    def proof(self) -> tuple[str, float] | None:
        """How it is known that both are of one job, and how surely; None where it is not."""
        if self.is_disproved:
            return None
        if self.together:
            if self.alike is not None:
                return "clocks and collectives", 3.0 if self.same_order else 2.0
            return ("clocks and process groups", 1.0) if self.groups and not self.collectives else None
        if self.together is None and self.same_order and self.same_model:
            return "collectives", 0.5
        return None

    def words(self) -> str:
        """What was compared, in words."""
        clocks = {True: "profiled at the same time", False: "profiled at other times", None: "no common clock"}
        shared = "no collectives of a common group"
        if self.same_order:
            shared = "the same collectives in the same order"
        elif self.alike is not None:
            shared = f"{self.alike:.0%} equal collectives" if self.alike else "other collectives"
        askew = f", but {skew / 1e6:,.0f} ms apart" if (skew := self.skew_ns or 0) > SKEW_NS else ""
        return f"{clocks[self.together]}; {shared}{askew}"


def links(con: Connection, own: Facts, others: Sequence[Facts], prints: Collection[str]) -> Iterator[Link]:
    """Links to the ranks of the same job, and a few hints where ranks fit and nothing proves that they are."""
    from kerneldb.warehouse.links import Link

    ranks = [one for one in others if _may_join(own, one) and one["trace_id"] not in prints]
    hints = 0
    for other, compared in _compared(con, own, ranks):
        proof = compared.proof()
        pair = (own["trace_id"], other["trace_id"])
        if proof is not None:
            method, sure = proof
            yield Link(*pair, "job", method, sure, f"{_ranks(own, other)}, {compared.words()}", compared.apart_ns)
        elif compared.is_disproved:
            yield Link(*pair, "apart", NO_PROOF, 0.0, f"{_ranks(own, other)}, {compared.words()}", compared.apart_ns)
        elif hints < HINTS and own["launches"] and other["launches"]:
            hints += 1
            yield Link(*pair, "hint", NO_PROOF, 0.0, f"{_ranks(own, other)}: {compared.words()}")


def _compared(con: Connection, own: Facts, ranks: Sequence[Facts]) -> Iterator[tuple[Facts, Comparison]]:
    """A trace held against the ranks of no job, and against those of each job until enough fit."""
    jobs: dict[str | None, list[Facts]] = collections.defaultdict(list)
    for one in sorted(ranks, key=lambda one: (one["rank"], one["trace_id"])):
        jobs[one["job"]].append(one)
    first = [*jobs.pop(None, ()), *(one for members in jobs.values() for one in members[:ENOUGH])]
    fitting: set[str] = set()
    for other, compared in _held_against(con, own, first):
        fitting |= {other["job"]} if compared.proof() else set()
        yield other, compared
    rest = [one for job, members in jobs.items() if job not in fitting for one in members[ENOUGH:]]
    yield from _held_against(con, own, rest)


def _held_against(con: Connection, own: Facts, ranks: Sequence[Facts]) -> Iterator[tuple[Facts, Comparison]]:
    if not ranks:
        return
    found = _evidence(con, [own["trace_id"], *(one["trace_id"] for one in ranks)])
    for other in ranks:
        yield other, compare(own, other, found)


def _may_join(one: Facts, other: Facts) -> bool:
    if one["rank"] is None or other["rank"] is None or one["rank"] == other["rank"]:
        return False
    same = all(bool(one[key] == other[key]) for key in ("world_size", "stated_job"))
    return same and together(one, other) is not False


def _ranks(one: Facts, other: Facts) -> str:
    low, high = sorted((one["rank"], other["rank"]))
    return f"ranks {low} and {high} of {one['world_size']}"


def _evidence(con: Connection, trace_ids: Sequence[str]) -> dict[str, Evidence]:
    found: dict[str, Evidence] = collections.defaultdict(Evidence)
    params = {"trace_ids": list(trace_ids)}
    for row in rows_of(con, statement("runs", "ranks"), params):
        of_trace, key = found[row["trace_id"]], row["key"] or ""
        if row["kind"] == "group":
            of_trace.groups.add(row["detail"])
        elif row["kind"] == "collective":
            of_trace.counts[key][row["detail"] or ""] = row["n"]
        else:
            of_trace.sequences[key] = (row["detail"], row["n"])
            if row["first_ns"] is not None and row["last_ns"] is not None:
                of_trace.ends[key] = (row["first_ns"], row["last_ns"])
    for row in rows_of(con, statement("runs", "models"), params):
        found[row["trace_id"]].models = tuple(row["models"])
    return found


def compare(one: Facts, other: Facts, found: Mapping[str, Evidence]) -> Comparison:
    """Hold two traces of different ranks against each other."""
    mine, theirs = found[one["trace_id"]], found[other["trace_id"]]
    shared = mine.counts.keys() & theirs.counts.keys()
    overlap = together(one, other)
    keys = shared & mine.ends.keys() & theirs.ends.keys() if overlap else set()
    ends = [abs(a - b) for key in keys for a, b in zip(mine.ends[key], theirs.ends[key], strict=True)]
    return Comparison(
        _contradict(mine, theirs, (one["rank"], other["rank"])),
        overlap,
        bool(mine.groups & theirs.groups),
        _common(mine, theirs, shared) if shared else None,
        bool(mine.counts or theirs.counts),
        bool(shared) and all(mine.sequences[key] == theirs.sequences[key] for key in shared),
        not mine.models or not theirs.models or mine.models == theirs.models,
        max(ends, default=None),
        min(ends, default=None),
    )


def _contradict(mine: Evidence, theirs: Evidence, ranks: tuple[int, int]) -> bool:
    """Whether a process group that has both ranks is known to one of them only; a rank lists all groups it is in."""
    sides = [side.groups or set(side.counts) for side in (mine, theirs)]
    known = [{members for members in map(_members, groups) if members} for groups in sides]
    both = [{members for members in groups if members.issuperset(ranks)} for groups in known]
    return bool(known[0] and known[1]) and both[0] != both[1]


def _members(text: str) -> frozenset[int]:
    """The ranks of a process group as the profiler lists them; none where the list is cut or there is none."""
    return frozenset() if "..." in text else frozenset(map(int, NUMBER.findall(text)))


def together(one: Facts, other: Facts) -> bool | None:
    """Whether two profiles overlap in time; None where one has no clock of the host."""
    spans = [_span(one), _span(other)]
    if spans[0] is None or spans[1] is None:
        return None
    return max(spans[0][0], spans[1][0]) < min(spans[0][1], spans[1][1])


def _span(one: Facts) -> tuple[int, int] | None:
    known = (one["base_ns"], one["window_start_ns"], one["window_end_ns"])
    if one["clock"] != "epoch" or None in known:
        return None
    base, start, end = known
    return base + start, base + end


def _common(mine: Evidence, theirs: Evidence, shared: Collection[str]) -> float:
    """How much of the collectives of the one that has fewer are in the other, too, in the same order.

    As many of them in another order are those of another program: profiles that began at other steps have other
    numbers, or the same order.
    """
    common = 0
    for key in shared:
        a, b = mine.sequences[key], theirs.sequences[key]
        if a == b or a[1] != b[1]:
            common += sum(min(n, theirs.counts[key].get(item, 0)) for item, n in mine.counts[key].items())
    fewer = min(sum(n for key in shared for n in side.counts[key].values()) for side in (mine, theirs))
    return common / fewer if fewer else 0.0


def decided(found: Sequence[Link], known: Mapping[str, Facts]) -> list[Link]:
    """The links that make jobs, surest first: not those of traces that fit equally well.

    Two traces of one rank never fit into one job. Where a trace has several candidates for another rank, the one that
    is clearly surer, or nearer in time, is taken, else none.
    """
    by_rank: dict[tuple[str, int], list[Link]] = collections.defaultdict(list)
    for link in found:
        for trace_id in link.ends:
            (other,) = link.ends - {trace_id}
            by_rank[trace_id, known[other]["rank"]].append(link)
    refused: set[frozenset[str]] = set()
    for candidates in by_rank.values():
        first, *rest = sorted(candidates, key=_sureness)
        if rest and not _clearly(first, rest[0]):
            rest = candidates
        refused |= {link.ends for link in rest}
    best = [link for link in found if link.ends not in refused]
    return sorted(best, key=lambda link: (*_sureness(link), *sorted(link.ends)))


def _sureness(link: Link) -> tuple[float, float]:
    return -link.score, float("inf") if link.apart_ns is None else link.apart_ns


def _clearly(first: Link, second: Link) -> bool:
    """Whether one link is surer by its kind, or much nearer in time."""
    if first.score != second.score:
        return True
    if first.apart_ns is None or second.apart_ns is None:
        return False
    return NEARER * (first.apart_ns + 1) < second.apart_ns + 1
