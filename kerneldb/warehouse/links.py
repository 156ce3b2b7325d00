"""Finds what shows that two traces belong together: prints of one report, ranks of one job.

Names of files and folders prove nothing here. Counter passes alone have to lie in one folder, besides holding the same
launches. What is found is stored in `trace_links` with the evidence, so that a user can read why traces were joined;
`kerneldb.warehouse.runs` makes runs and jobs of it.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from kerneldb.schemas.loader import statement
from kerneldb.warehouse import jobs
from kerneldb.warehouse.statements import execute_rows, rows_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import duckdb

    Connection = duckdb.DuckDBPyConnection
    Facts = Mapping[str, Any]

Relation = Literal["print", "job", "hint", "apart"]

EVIDENCE: Final = ("sample", "sums", "groups", "collectives")
FEW: Final = 3
"""So many launches of equal name, start and duration are no chance, where nearly all of a common time are equal."""
MANY: Final = 4
"""So many equal metrics of a launch are no chance."""
AGREEING: Final = 0.9
"""The share that is equal in prints of one report: spelling and rounding make a few differ."""
NEAR_NS: Final = 2_000_000
NEAR_SHARE: Final = 1e-3
"""How far the first and the last start may lie apart in prints of few digits: of the time between them, or in ns."""
OWN_PROCESS: Final = 1000
"""In a container, process ids are small numbers that come again in every container."""
PASS: Final = re.compile(r"^(.*)[/\\]pass_(\d+)[/\\][^/\\]*$")
"""A file of a counter pass, as rocprofv3 names folders: the folder of all passes, and the number."""
BRIEF: Final = 0.5
"""Of a shorter part than this of the time of both, samples of the whole traces may hold nothing."""
UNSURE: Final = 0.1
"""The score of links by names and numbers without times, or by rounded times: other runs of a program have the same."""


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


def facts(con: Connection, trace_ids: Collection[str] | None = None) -> dict[str, Facts]:
    """The row of each of these traces (None: of all), by id."""
    return {row["trace_id"]: row for row in rows_of(con, statement("runs", "facts"), _some(trace_ids))}


def stored(con: Connection, trace_ids: Collection[str] | None = None) -> list[Link]:
    """The links of these traces (None: all links)."""
    return [Link(**row) for row in rows_of(con, statement("runs", "links"), _some(trace_ids))]


def tied(con: Connection, trace_ids: Collection[str]) -> set[str]:
    """These traces, with those that are linked to them or in a run or job with them, and so on."""
    found, fresh = set[str](), set(trace_ids)
    while fresh:
        found |= fresh
        fresh = _ids(con, "tied", found) - found
    return found


def _ids(con: Connection, name: str, trace_ids: Collection[str]) -> set[str]:
    return {trace_id for (trace_id,) in con.execute(statement("runs", name), _some(trace_ids)).fetchall()}


def _some(trace_ids: Collection[str] | None) -> dict[str, list[str] | None]:
    return {"trace_ids": None if trace_ids is None else sorted(trace_ids)}


def note(con: Connection, trace_id: str) -> None:
    """Note what a trace is known by."""
    ((source, rank),) = con.execute(statement("runs", "kind_of"), {"trace_id": trace_id}).fetchall()
    needless = ({"sums"} if source == "pytorch" else set()) | ({"groups", "collectives"} if rank is None else set())
    for name in EVIDENCE:
        if name not in needless:
            con.execute(statement("runs", name), {"trace_id": trace_id})
    for (path,) in con.execute(statement("runs", "files"), {"trace_id": trace_id}).fetchall():
        if found := PASS.match(str(Path(path).resolve())):
            of_pass = {"trace_id": trace_id, "folder": found[1], "number": int(found[2])}
            con.execute(statement("runs", "pass"), of_pass)
            break


def find(con: Connection, trace_ids: Collection[str]) -> None:
    """Link traces that have no links yet with the others they belong to. All in one statement: in a lake each costs."""
    found, done = list[Link](), set[str]()
    known = facts(con, trace_ids)
    for own in [known[trace_id] for trace_id in trace_ids]:
        done.add(own["trace_id"])
        # To look at every trace would soon take longer than adding one.
        near = _ids(con, "near", [own["trace_id"]]) - done
        if near:
            others = facts(con, near)
            prints = _surest(_prints(con, own, others))
            found += [*prints.values(), *jobs.links(con, own, list(others.values()), prints)]
    if found:
        columns = [field.name for field in dataclasses.fields(Link)]
        execute_rows(con, statement("runs", "link"), columns, map(dataclasses.astuple, found))


def _surest(found: Iterable[Link]) -> dict[str, Link]:
    """By the other trace, the first link with the score of the surest: equal sums say more than many equal launches."""
    best: dict[str, Link] = {}
    for link in found:
        first = best.setdefault(link.other_id, link)
        best[link.other_id] = dataclasses.replace(first, score=max(first.score, link.score))
    return best


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
    sampled = {row["trace_id"] for row in rows_of(con, statement("runs", "sampled_elsewhere"), params)}
    for other in near:
        if other not in sampled and not _is_brief(own, others[other]):
            continue
        pair = {"trace_id": own["trace_id"], "other_id": other}
        (counts,) = rows_of(con, statement("runs", "shared_launches"), pair)
        fewer, shared, named = counts["fewer"], counts["shared"], counts["named"]
        if named >= AGREEING * shared and shared >= AGREEING * fewer and shared >= min(FEW, counts["fewest"]) > 0:
            evidence = f"{shared:,} of {fewer:,} launches of a common time have the same start and duration"
            sure = 0.5 + shared / fewer
            yield Link(**pair, relation="print", method="launches", score=sure, evidence=evidence)


def _overlap(one: Facts, other: Facts) -> bool:
    common = _common_ns(one, other)
    if common is None:  # of launches without a timeline the span is not known
        return bool(one["launches"] and other["launches"]) and one["source"] != "ncu"
    return common >= 0


def _is_brief(one: Facts, other: Facts) -> bool:
    """Whether two traces share so little of the time of either that a few launches of each need not show it."""
    common = _common_ns(one, other)
    shorter = min((row["launches_end_ns"] or 0) - (row["launches_start_ns"] or 0) for row in (one, other))
    return common is not None and common < BRIEF * shorter


def _common_ns(one: Facts, other: Facts) -> int | None:
    """The time in which both have launches (ns), negative where there is none; None where a timeline is missing."""
    starts, ends = ([row[fact] for row in (one, other)] for fact in ("launches_start_ns", "launches_end_ns"))
    return None if None in starts or None in ends else min(ends) - max(starts)


def _of_sums(con: Connection, own: Facts, others: Mapping[str, Facts]) -> Iterator[Link]:
    """Traces with as many kernels and copies, of the same total time, and the same names."""
    for row in rows_of(con, statement("runs", "equal_sums"), {"trace_id": own["trace_id"]}):
        other = others.get(row["trace_id"])
        only_copies = row["equal"] == ["copy"] and (row["n"] == 1 or row["common"] != ["copy"])
        if other is None or row["equal"] != row["common"] or only_copies or not _began_alike(con, own, other):
            continue
        evidence = f"{row['n']:,} launches of the same names"
        if row["total_ns"] is not None:
            evidence += f" and total time ({row['total_ns']:,} ns{'' if row['is_sure'] else ', rounded'})"
        yield Link(own["trace_id"], row["trace_id"], "print", "sums", 0.5 if row["is_sure"] else UNSURE, evidence)


def _began_alike(con: Connection, one: Facts, other: Facts) -> bool:
    """Whether launches of both began at the same times, as far as both have a timeline."""
    if one["launches_start_ns"] is None or other["launches_start_ns"] is None:
        return True
    if not placed_alike(one, other):
        return False
    pair = {"trace_id": one["trace_id"], "other_id": other["trace_id"]}
    (counts,) = rows_of(con, statement("runs", "same_starts"), pair)
    return bool(counts["near"] >= AGREEING * counts["n"])


def placed_alike(one: Facts, other: Facts) -> bool:
    """Whether the launches of both began and ended at about the same times, as far as both have a timeline."""
    starts = (one["launches_start_ns"], other["launches_start_ns"])
    ends = (one["launches_end_ns"], other["launches_end_ns"])
    if None in starts or None in ends:
        return True
    slack = max(NEAR_NS, NEAR_SHARE * max(end - start for start, end in zip(starts, ends, strict=True)))
    near = abs(starts[0] - starts[1]) <= slack and abs(ends[0] - ends[1]) <= slack
    return near and _agree(one, other, "base_ns")


def _of_passes(con: Connection, own: Facts, others: Mapping[str, Facts]) -> Iterator[Link]:
    """Counter passes that follow each other; a program that was profiled anew left others in the same folder."""
    for row in rows_of(con, statement("runs", "same_passes"), {"trace_id": own["trace_id"]}):
        if row["trace_id"] in others:
            evidence = f"counter passes {row['pass']} and {row['other_pass']} of one folder: the same launches"
            apart_s = abs(_began(own) - _began(others[row["trace_id"]])) / 1e9
            sure = 0.5 + 0.5 / (1 + apart_s)
            yield Link(own["trace_id"], row["trace_id"], "print", "passes", sure, evidence)


def _began(one: Facts) -> int:
    return int((one["base_ns"] or 0) + (one["launches_start_ns"] or 0))


def _of_profiles(con: Connection, own: Facts, others: Mapping[str, Facts]) -> Iterator[Link]:
    """Pages of one report of Nsight Compute."""
    if own["source"] != "ncu":
        return
    for row in rows_of(con, statement("runs", "profiled_pairs"), {"trace_id": own["trace_id"]}):
        if row["other_id"] in others and _is_same_profile(row):
            sure = bool(row["durations"] or row["equal_measured"] >= FEW)
            score = 1.0 if sure else UNSURE
            yield Link(own["trace_id"], row["other_id"], "print", "profile", score, _evidence_of_profile(row))


def _is_same_profile(row: Facts) -> bool:
    """Whether launches of equal process and number are the same; figures of the launch configuration do not count."""
    agree = row["equal_durations"] == row["durations"] and row["equal_metrics"] >= AGREEING * row["metrics"]
    told_apart = (row["process"] or 0) >= OWN_PROCESS or row["equal_measured"] >= MANY or row["equal_rates"]
    return bool(row["named"] and agree and (told_apart or (row["durations"] and row["pairs"] >= FEW)))


def _evidence_of_profile(row: Facts) -> str:
    alike = f"{row['pairs']:,} launch{'es' if row['pairs'] > 1 else ''} of the same process, number, name and grid"
    metrics = f"; {row['equal_metrics']:,} of {row['metrics']:,} metrics agree" if row["metrics"] else ""
    return f"{alike}{', with equal durations' if row['durations'] else ''}{metrics}"
