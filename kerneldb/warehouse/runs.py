"""Decides which traces are one run and one job, and which launches are primary: what ran is in `kernels` once.

A run is what a user or a recording states, else what links between traces prove, else one trace alone. A job is the
ranks of a run that ran together. Of launches that several traces of a run hold, those of the best trace are primary.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, Final

from kerneldb.schemas.loader import statement
from kerneldb.warehouse import jobs, links
from kerneldb.warehouse.statements import execute_all, execute_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import duckdb

    from kerneldb.warehouse.links import Facts, Link

    Connection = duckdb.DuckDBPyConnection

STEPS: Final = {
    "launches": ("mark_placed", "pair_placed"),
    "profile": ("pair_profiled", "mark_paired", "fill_profiled"),
    "passes": ("pair_passes", "mark_all"),
    "sums": ("mark_all",),
    "all": ("mark_all",),
}
"""How launches are found in better traces, by the way that the traces are linked."""


class Groups:
    """Traces joined step by step (union-find). `refuses` says of two groups that they must stay apart."""

    def __init__(self, traces: Iterable[str], refuses: Callable[[list[str], list[str]], bool]) -> None:
        self._group = {trace: [trace] for trace in traces}
        self._refuses = refuses

    def join(self, traces: Iterable[str]) -> None:
        """Join the groups of these traces, as far as they may be joined."""
        first, *rest = traces
        for other in rest:
            mine, theirs = self._group[first], self._group[other]
            if mine is not theirs and not self._refuses(mine, theirs):
                mine += theirs
                self._group |= dict.fromkeys(theirs, mine)

    def of(self, trace: str) -> list[str]:
        """The traces of the group of `trace`."""
        return self._group[trace]

    def all(self) -> list[list[str]]:
        """All groups."""
        return list({id(group): group for group in self._group.values()}.values())


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """How launches of a trace are found in better traces of its run, best first: other trace → key of STEPS.

    With those of `indirect` it has no link of its own: they may share no launch.
    """

    trace_id: str
    better: Mapping[str, str]
    indirect: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Joined:
    """The traces as groups: of prints of one report, of ranks of one job, of one run.

    `first` maps each trace to the print that represents it in `jobs`.
    """

    prints: Groups
    jobs: Groups
    runs: Groups
    first: Mapping[str, str]


def added(
    con: Connection, trace_ids: Collection[str], beside: Collection[str] | None = (), *, noted: bool = False
) -> set[str]:
    """Link traces that were added or written anew with the others, and decide anew what is primary.

    `beside` were in a run with them before; None: all of them are new. `noted`: what they are known by was added with
    them. Returns what `judge` does.
    """
    for trace_id in () if noted else trace_ids:
        links.note(con, trace_id)
    if is_one(con):
        known = links.facts(con)
        return _judge(con, trace_ids, known, [], _joined(known, []))
    links.find(con, trace_ids)
    if beside is None and (tied := _alone(con, trace_ids)) is not None:
        return _judge(con, trace_ids, *tied)
    return judge(con, {*trace_ids, *(beside or ())})


def is_one(con: Connection) -> bool:
    """Whether the database holds no more than one trace, which nothing has to be looked for."""
    return con.execute(statement("runs", "is_one")).fetchone() == (True,)


def removed(con: Connection, beside: Collection[str]) -> set[str]:
    """Decide anew for traces that were in a run with traces that are gone, and look for others that they belong to.

    Returns what `judge` does.
    """
    linked = {end for link in links.stored(con) for end in link.ends}
    links.find(con, sorted(set(beside) - linked))
    return judge(con, beside)


def adopt(con: Connection) -> None:
    """Take over the runs of a database that went by names of folders: what a user stated stays, the rest is proven."""
    execute_all(con, statement("runs", "adopt"), {})
    added(con, list(links.facts(con)))


def beside(con: Connection, trace_ids: Collection[str]) -> set[str]:
    """The other traces of the runs of these."""
    if not trace_ids:
        return set()
    known = links.facts(con)
    names = {known[trace_id]["run"] for trace_id in trace_ids}
    return {trace_id for trace_id, row in known.items() if row["run"] in names} - set(trace_ids)


def judge(con: Connection, changed: Collection[str] = ()) -> set[str]:
    """Decide runs and jobs of all traces, and the primary launches of the runs that are not as they were.

    `changed` are traces whose rows, links or neighbours are new. Returns all traces of the runs that are concerned.
    """
    known, found = links.facts(con), links.stored(con)
    return _judge(con, changed, known, found, _joined(known, found))


def _alone(con: Connection, new: Collection[str]) -> tuple[Mapping[str, Facts], Sequence[Link], Joined] | None:
    """The new traces and those whose run or job depends on them, as far as no other one does; None where one may."""
    inside = links.tied(con, new)
    known, found = links.facts(con, inside), links.stored(con, inside)
    joined = _joined(known, found)
    runs = _run_names(known, joined.runs)
    called = {
        "runs": {*runs.values()},
        "stated": _stating(known, known, "stated_run"),
        "jobs": _stating(known, known, "job") | {*_job_names(known, joined, runs).values()} - {None},
    }
    params = {name: sorted(values) for name, values in (called | {"trace_ids": inside}).items()}
    clashes = con.execute(statement("runs", "clashes"), params).fetchone() == (True,)
    return None if clashes else (known, found, joined)


def _judge(
    con: Connection, changed: Collection[str], known: Mapping[str, Facts], found: Sequence[Link], joined: Joined
) -> set[str]:
    """Decide runs and jobs of the traces that are known, on which those of no other trace depend."""
    _mark_unclear(con, found, joined)
    names = _run_names(known, joined.runs)
    job_names = _job_names(known, joined, names)
    moved = {one for one, row in known.items() if (row["run"], row["job"]) != (names[one], job_names[one])}
    moved |= set(changed) & known.keys()
    former = {known[trace_id]["run"] for trace_id in moved}
    concerned = {one for trace_id in moved for one in joined.runs.of(trace_id)}
    concerned |= {trace_id for trace_id, row in known.items() if row["run"] in former}
    timings = _timings(con, known, concerned, joined.runs)
    columns = ("run", "job", "primary_timing")
    now = {one: (names[one], job_names[one], timings[one]) for one in sorted(concerned)}
    new = [(one, *values) for one, values in now.items() if tuple(known[one][column] for column in columns) != values]
    if new:
        execute_rows(con, statement("runs", "set_runs"), ("trace_id", *columns), new)
    for plan in _plans(con, known, found, joined, concerned):
        stored = set(known[plan.trace_id]["repeats"] or ())
        if not moved.isdisjoint({plan.trace_id, *plan.better}) or not stored <= set(plan.better):
            moved.add(plan.trace_id)
            if plan.better or stored:
                _mark(con, plan)
    judged = {"trace_ids": sorted(concerned)}
    if (True,) in con.execute(statement("runs", "reports"), judged).fetchall():
        con.execute(statement("runs", "mark_reports"), judged)
    con.execute(statement("runs", "mark_traces"), judged)
    return concerned


def _mark_unclear(con: Connection, found: Sequence[Link], joined: Joined) -> None:
    """Links of ranks that several traces fit equally well are hints, until one of these is gone."""
    new = []
    for link in found:
        if link.is_of_ranks:
            one, other = (joined.first[end] for end in (link.trace_id, link.other_id))
            relation = "job" if other in joined.jobs.of(one) else "hint"
            if relation != link.relation:
                new.append((link.trace_id, link.other_id, relation))
    if new:
        execute_rows(con, statement("runs", "relate"), ("trace_id", "other_id", "relation"), new)


def _joined(known: Mapping[str, Facts], found: Sequence[Link]) -> Joined:
    def stated_apart(mine: list[str], theirs: list[str]) -> bool:
        stated = [_stating(known, side, "stated_run") for side in (mine, theirs)]
        return all(stated) and stated[0] != stated[1]

    prints, runs = _joined_prints(known, found, stated_apart), Groups(known, stated_apart)
    first = {trace: min(prints.of(trace), key=lambda one: (known[one]["rank"] is None, one)) for trace in known}
    ranks = _joined_ranks(known, found, first)
    for group in (*prints.all(), *ranks.all(), *_by(known, known, "stated_run").values()):
        runs.join(group)
    return Joined(prints, ranks, runs, first)


def _stating(known: Mapping[str, Facts], traces: Iterable[str], fact: str) -> set[Any]:
    return {known[one][fact] for one in traces} - {None}


def _joined_prints(
    known: Mapping[str, Facts], found: Sequence[Link], stated_apart: Callable[[list[str], list[str]], bool]
) -> Groups:
    """Prints of one report: first by sure links, then by links without exact times that are no choice."""

    def differ(mine: list[str], theirs: list[str]) -> bool:
        values = [[_stating(known, side, fact) for side in (mine, theirs)] for fact in ("base_ns", "rank")]
        same_pass = _stating(known, mine, "pass") & _stating(known, theirs, "pass")
        return stated_apart(mine, theirs) or bool(same_pass) or any(a and b and not a & b for a, b in values)

    prints, linked = Groups(known, differ), collections.defaultdict[str, set[str]](set)
    by_score = sorted(
        (link for link in found if link.relation == "print"), key=lambda link: (-link.score, *sorted(link.ends))
    )
    for link in by_score:
        linked[link.trace_id].add(link.other_id)
        linked[link.other_id].add(link.trace_id)
        if link.score > links.UNSURE:
            prints.join(link.ends)
    unsure = [one for one in by_score if one.score <= links.UNSURE and _is_only_one(one, linked, prints, known)]
    for link in unsure:
        prints.join(link.ends)
    return prints


def _joined_ranks(known: Mapping[str, Facts], found: Sequence[Link], first: Mapping[str, str]) -> Groups:
    """Ranks of one job: as stated, then by links, the surest first."""
    apart = _apart(known, found, first)

    def differ(mine: list[str], theirs: list[str]) -> bool:
        same_rank = _stating(known, mine, "rank") & _stating(known, theirs, "rank")
        return bool(same_rank) or any(not apart[one].isdisjoint(theirs) for one in apart.keys() & set(mine))

    ranks = Groups({one for one in first.values() if known[one]["rank"] is not None}, differ)
    for group in _stated(known, first):
        ranks.join(group)
    for link in jobs.decided(_between(found, first), known):
        ranks.join(sorted(link.ends))
    return ranks


def _apart(known: Mapping[str, Facts], found: Iterable[Link], first: Mapping[str, str]) -> dict[str, set[str]]:
    """For each print that represents a rank, those that cannot be of its job, unless it is stated that they are."""
    others = collections.defaultdict[str, set[str]](set)
    for link in found:
        ends = [known[end] for end in (link.trace_id, link.other_id)]
        stated = any(
            ends[0][fact] is not None and ends[0][fact] == ends[1][fact] for fact in ("stated_run", "stated_job")
        )
        if link.relation == "apart" and not stated:
            others[first[link.trace_id]].add(first[link.other_id])
            others[first[link.other_id]].add(first[link.trace_id])
    return dict(others)


def _is_only_one(link: Link, linked: Mapping[str, set[str]], prints: Groups, known: Mapping[str, Facts]) -> bool:
    """Whether a link without exact times is no choice: what fits one end fits the other, or is of other work."""

    def contradicts(third: str, near: str, far: str) -> bool:
        same = third == far or third in linked[far] or third in prints.of(far) or third in prints.of(near)
        one, other = known[third], known[far]
        of_same_work = one["source"] == other["source"] == "ncu" or not set(one["summed"]).isdisjoint(other["summed"])
        return not same and of_same_work

    ends = (link.trace_id, link.other_id)
    return not any(contradicts(third, near, far) for near, far in (ends, ends[::-1]) for third in linked[near])


def _between(found: Sequence[Link], first: Mapping[str, str]) -> list[Link]:
    """The links of ranks, between the prints that represent them: the surest one for each two."""
    best: dict[frozenset[str], Link] = {}
    for link in sorted(found, key=lambda link: link.score):
        one, other = (first[end] for end in (link.trace_id, link.other_id))
        if link.is_of_ranks and one != other:
            best[frozenset((one, other))] = dataclasses.replace(link, trace_id=one, other_id=other)
    return list(best.values())


def _by(known: Mapping[str, Facts], traces: Iterable[str], *columns: str) -> dict[tuple[Any, ...], list[str]]:
    """The traces by what they state in `columns`; those that state nothing in the first are left out."""
    groups: dict[tuple[Any, ...], list[str]] = collections.defaultdict(list)
    for trace in traces:
        key = tuple(known[trace][column] for column in columns)
        if key[0] is not None:
            groups[key].append(trace)
    return groups


def _stated(known: Mapping[str, Facts], first: Mapping[str, str]) -> list[list[str]]:
    """The jobs that recordings state, and the ranks of each phase of a stated run, where every rank is there once."""
    ranks = sorted({one for one in first.values() if known[one]["rank"] is not None})
    unstated = [one for one in ranks if known[one]["stated_job"] is None]
    stages = [*_by(known, ranks, "stated_job").values(), *_by(known, unstated, "stated_run", "default_phase").values()]
    return [stage for stage in stages if len({known[one]["rank"] for one in stage}) == len(stage)]


def _run_names(known: Mapping[str, Facts], runs: Groups) -> dict[str, str]:
    """The run of each trace: as stated, or called like its first trace, under a name that no other run or trace has."""
    names: dict[str, str] = {}
    unnamed = []
    for group in runs.all():
        said = {known[one]["stated_run"] for one in group} - {None}
        first = min(group, key=lambda one: (not known[one]["launches"], known[one]["rank"] or 0, known[one]["name"]))
        names |= dict.fromkeys(group, said.pop() if said else "")
        if not names[first]:
            unnamed.append((known[first]["name"], group))
    stated = set(names.values())
    taken = stated | {name for name, _ in unnamed}
    for name, group in unnamed:
        free = free_name(name, taken) if name in stated else name
        taken.add(free)
        names |= dict.fromkeys(group, free)
    return names


def _job_names(known: Mapping[str, Facts], joined: Joined, runs: Mapping[str, str]) -> dict[str, str | None]:
    """The job of each trace: as its recording states, or called like its run; None outside of jobs."""
    names: dict[str, str | None] = dict.fromkeys(known)
    taken: set[str | None] = set()
    of_first: dict[str, str | None] = {}
    for group in sorted(joined.jobs.all(), key=lambda group: min((known[one]["name"], one) for one in group)):
        stated = {known[one]["stated_job"] for one in group} - {None}
        if stated or len(group) > 1:
            name = free_name(stated.pop() if stated else runs[group[0]], taken)
            taken.add(name)
            of_first |= dict.fromkeys(group, name)
    names |= {trace: of_first[first] for trace, first in joined.first.items() if first in of_first}
    return names


def free_name(name: str, taken: Collection[str | None]) -> str:
    """`name`, or the first of `name (2)`, `name (3)`, … that is not taken."""
    candidates = itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)


def _timings(con: Connection, known: Mapping[str, Facts], traces: Collection[str], runs: Groups) -> dict[str, str]:
    """What traces of whole runs answer with: the timeline; profiled launches where the run has no timeline of them."""
    rows = con.execute(statement("runs", "timings"), {"trace_ids": sorted(traces)}).fetchall()
    holders: dict[str, list[str]] = dict(rows)

    def is_there(timing: str, trace: str) -> bool:
        holding = set(holders.get(timing, ())).intersection(runs.of(trace))
        return any(_same_work(known[trace], known[one]) for one in holding)

    # Counters of replayed calls are of other traces' kernels: no launch of theirs is one of the program.
    captured = (trace for trace in traces if known[trace]["kind"] != "replay")
    profiled = {trace for trace in captured if is_there("profiled", trace) and not is_there("timeline", trace)}
    return {trace: "profiled" if trace in profiled else "timeline" for trace in traces}


def _same_work(one: Facts, other: Facts) -> bool:
    """Whether two traces of a run may hold the same work: no other rank, and no other phase of the program."""
    return all(one[key] is None or other[key] is None or one[key] == other[key] for key in ("rank", "default_phase"))


def _plans(
    con: Connection, known: Mapping[str, Facts], found: Sequence[Link], joined: Joined, concerned: Collection[str]
) -> list[Plan]:
    """For each of the traces: which better traces of its run may hold launches of it. Better ones first."""
    links_of_prints = sorted((link for link in found if link.relation == "print"), key=lambda link: link.score)
    methods = {link.ends: link.method for link in links_of_prints}
    of_run: dict[int, dict[int | None, list[str]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for one in concerned:
        of_run[id(joined.runs.of(one))][known[one]["rank"]].append(one)
    others = {one: _of_ranks(of_run[id(joined.runs.of(one))], known[one]["rank"]) for one in concerned}

    def method(one: str, other: str) -> str | None:
        if one == other or not _same_work(known[one], known[other]):
            return None
        if other in joined.prints.of(one):
            return methods.get(frozenset((one, other)), "profile" if known[one]["source"] == "ncu" else "launches")
        return "all" if _another_export(known[one], known[other]) else None

    several = [one for one in concerned if any(method(one, other) for other in others[one])]
    order = con.execute(statement("runs", "order"), {"trace_ids": several}).fetchall() if several else []
    places = {trace: place for place, (trace,) in enumerate(order)}
    plans = [Plan(trace, {}, frozenset()) for trace in concerned if trace not in places]
    for trace, place in places.items():
        better = sorted((one for one in others[trace] if places.get(one, place) < place), key=places.__getitem__)
        by_method = {other: inferred_by for other in better if (inferred_by := method(trace, other))}
        linked = {other for other in by_method if frozenset((trace, other)) in methods or by_method[other] == "all"}
        plans.append(Plan(trace, by_method, frozenset(by_method) - linked))
    return plans


def _of_ranks(of_run: Mapping[int | None, list[str]], rank: int | None) -> list[str]:
    """The traces of a run that may be of the same rank; those that state none may be of any."""
    ranks = of_run if rank is None else (rank, None)
    return [one for key in ranks for one in of_run.get(key, ())]


def _another_export(one: Facts, other: Facts) -> bool:
    """Whether a stated run makes a trace the same work as another: of another tool, or another form of export.

    PyTorch traces of a run are its stages. Exports of one tool that place their launches would share these.
    """
    if one["kind"] != "timeline" or other["kind"] != "timeline" or not one["launches"] or not other["launches"]:
        return False
    if one["source"] == other["source"]:
        return one["source"] != "pytorch" and one["era"] != other["era"] and links.placed_alike(one, other)
    return jobs.together(one, other) is not False


def _mark(con: Connection, plan: Plan) -> None:
    """Mark the launches of a trace that better traces hold, too, and sum it anew."""
    of_trace = {"trace_id": plan.trace_id}
    execute_all(con, statement("runs", "unmark"), of_trace)
    shared: set[str] = set()
    if plan.indirect:  # those of the better traces without a link of their own that hold launches of this one
        others = {**of_trace, "others": sorted(plan.indirect)}
        shared = {trace_id for (trace_id,) in con.execute(statement("runs", "sharing"), others).fetchall()}
    found = {other: method for other, method in plan.better.items() if other not in plan.indirect or other in shared}
    for method in dict.fromkeys(found.values()):
        better = [other for other, by in found.items() if by == method]
        for step in STEPS[method]:
            params = {**of_trace, "better": better} if "$better" in statement("runs", step) else of_trace
            con.execute(statement("runs", step), params)
    con.execute(statement("runs", "set_repeats"), {**of_trace, "repeats": list(found) or None})
    con.execute(statement("runs", "forget_rollups"), of_trace)
    con.execute(statement("commit", "roll_up"), of_trace)
