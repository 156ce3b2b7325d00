"""Finds what shows that two traces belong together: prints of one report, ranks of one job.

Nothing here goes by the name of a file or folder. What is found is stored in `trace_links` with the evidence, so that a
user can read why traces were joined; `kerneldb.warehouse.runs` makes runs and jobs of it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Literal

from kerneldb.schemas.loader import statement
from kerneldb.warehouse import jobs
from kerneldb.warehouse.statements import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import duckdb

    Connection = duckdb.DuckDBPyConnection
    Facts = Mapping[str, Any]

Relation = Literal["print", "job", "hint"]

EVIDENCE: Final = ("sample", "sums", "passes", "groups", "collectives")
MANY: Final = 8
FEW: Final = 3
"""So many launches of equal start and duration, in nanoseconds, are no chance; of equal name, too, fewer are none."""
NEAR_NS: Final = 2_000_000
NEAR_SHARE: Final = 1e-3
"""How far the first and the last start may lie apart in prints of few digits: of the time between them, or in ns."""
OWN_PROCESS: Final = 1000
"""In a container, process ids are small numbers that come again in every container."""
AGREEING: Final = 0.9


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """Why two traces belong together.

    `score` orders links of one relation: the higher, the surer. `apart_ns`: how far the ends of the first and the last
    collectives of two ranks lie apart.
    """

    trace_id: str
    other_id: str
    relation: Relation
    method: str
    score: float
    evidence: str
    apart_ns: int | None = None

    @property
    def is_of_ranks(self) -> bool:
        """Whether it is proof that two ranks ran together, which may be one of several that fit equally well."""
        return self.relation != "print" and self.method != jobs.NO_PROOF

    @property
    def ends(self) -> frozenset[str]:
        """Both traces."""
        return frozenset((self.trace_id, self.other_id))


def facts(con: Connection) -> dict[str, Facts]:
    """The row of each trace, by id."""
    return {row["trace_id"]: row for row in rows_of(con, statement("runs", "facts"))}


def stored(con: Connection) -> list[Link]:
    """All links between traces."""
    return [Link(**row) for row in rows_of(con, statement("runs", "links"))]


def note(con: Connection, trace_id: str) -> None:
    """Note what a trace is known by."""
    for name in EVIDENCE:
        con.execute(statement("runs", name), {"trace_id": trace_id})


def find(con: Connection, trace_ids: Iterable[str]) -> None:
    """Link traces that have no links yet with the others they belong to. All in one statement: in a lake each costs."""
    others, found = facts(con), list[Link]()
    for own in [others[trace_id] for trace_id in trace_ids]:
        del others[own["trace_id"]]
        if others:
            prints = {link.other_id: link for link in _prints(con, own, others)}
            found += [*prints.values(), *jobs.links(con, own, list(others.values()), prints)]
    if found:
        columns = [field.name for field in dataclasses.fields(Link)]
        con.execute(statement("runs", "link"), {name: [getattr(link, name) for link in found] for name in columns})


def _prints(con: Connection, own: Facts, others: Mapping[str, Facts]) -> Iterator[Link]:
    others = {key: one for key, one in others.items() if _agree(own, one, "rank")}
    yield from _of_sums(con, own, others)
    yield from _of_passes(con, own, others)
    yield from _of_profiles(con, own, others)
    yield from _of_launches(con, own, others)


def _agree(one: Facts, other: Facts, fact: str) -> bool:
    """Whether a fact is the same in both traces, or unknown in one."""
    return one[fact] is None or other[fact] is None or bool(one[fact] == other[fact])


def _of_launches(con: Connection, own: Facts, others: Mapping[str, Facts]) -> Iterator[Link]:
    """Traces that hold launches of the same start and duration, on one clock."""
    near = [key for key, one in others.items() if _agree(own, one, "base_ns") and _overlap(own, one)]
    if not near:
        return
    params = {"trace_id": own["trace_id"], "others": near}
    for row in rows_of(con, statement("runs", "sampled_elsewhere"), params):
        pair = {"trace_id": own["trace_id"], "other_id": row["trace_id"]}
        (counts,) = rows_of(con, statement("runs", "shared_launches"), pair)
        fewer = min(counts["own"], counts["others"])
        if counts["shared"] >= MANY or counts["shared"] == counts["named"] >= min(FEW, fewer) > 0:
            evidence = f"{counts['shared']:,} of {fewer:,} launches have the same start and duration"
            sure = 0.5 + counts["shared"] / fewer
            yield Link(**pair, relation="print", method="launches", score=sure, evidence=evidence)


def _overlap(one: Facts, other: Facts) -> bool:
    spans = [(row["launches_start_ns"], row["launches_end_ns"]) for row in (one, other)]
    if None in spans[0] or None in spans[1]:  # of launches without a timeline the span is not known
        return bool(one["launches"] and other["launches"]) and one["source"] != "ncu"
    return bool(max(start for start, _ in spans) <= min(end for _, end in spans))


def _of_sums(con: Connection, own: Facts, others: Mapping[str, Facts]) -> Iterator[Link]:
    """Traces with as many kernels and copies, of the same total time, and the same names."""
    for row in rows_of(con, statement("runs", "equal_sums"), {"trace_id": own["trace_id"]}):
        other = others.get(row["trace_id"])
        only_copies = row["equal"] == ["copy"] and (row["n"] == 1 or row["common"] != ["copy"])
        if other is None or row["equal"] != row["common"] or only_copies or not _placed_alike(own, other):
            continue
        evidence = f"{row['n']:,} launches of the same names and total time ({row['total_ns'] or 0:,} ns)"
        yield Link(own["trace_id"], row["trace_id"], "print", "sums", 0.5, evidence)


def _placed_alike(one: Facts, other: Facts) -> bool:
    """Whether the launches of both began and ended at about the same times, as far as both have a timeline."""
    starts = (one["launches_start_ns"], other["launches_start_ns"])
    ends = (one["launches_end_ns"], other["launches_end_ns"])
    if None in starts or None in ends:
        return True
    slack = max(NEAR_NS, NEAR_SHARE * (ends[0] - starts[0]))
    near = abs(starts[0] - starts[1]) <= slack and abs(ends[0] - ends[1]) <= slack
    return near and _agree(one, other, "base_ns")


def _of_passes(con: Connection, own: Facts, others: Mapping[str, Facts]) -> Iterator[Link]:
    for row in rows_of(con, statement("runs", "same_passes"), {"trace_id": own["trace_id"]}):
        if row["trace_id"] in others:
            evidence = "counter passes of one rocprofv3 run: the same launches"
            yield Link(own["trace_id"], row["trace_id"], "print", "passes", 1.0, evidence)


def _of_profiles(con: Connection, own: Facts, others: Mapping[str, Facts]) -> Iterator[Link]:
    """Pages of one report of Nsight Compute."""
    if own["source"] != "ncu":
        return
    for row in rows_of(con, statement("runs", "profiled_pairs"), {"trace_id": own["trace_id"]}):
        evidence = _same_profile(row)
        if evidence and row["other_id"] in others:
            yield Link(own["trace_id"], row["other_id"], "print", "profile", 1.0, evidence)


def _same_profile(row: Facts) -> str | None:
    """What shows that launches of equal process and number are the same; None where they are not, or may not be."""
    alike = f"{row['pairs']:,} launches of the same process, number and grid"
    if row["durations"]:
        equal = row["equal_durations"] == row["durations"]
        return f"{alike}, with equal durations" if equal else None
    if row["metrics"]:
        equal = row["equal_metrics"] >= AGREEING * row["metrics"]
        return f"{alike}; {row['equal_metrics']:,} of {row['metrics']:,} metrics agree" if equal else None
    return f"{alike}, with equal names" if row["named"] and (row["process"] or 0) >= OWN_PROCESS else None
