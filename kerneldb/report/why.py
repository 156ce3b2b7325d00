"""Why a trace takes as long as it does: where its wall time went, and what the rules of advice say about it."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kerneldb.output.units import duration, size
from kerneldb.report import ranks
from kerneldb.report.advice import RULES, Rule
from kerneldb.report.asking import Asking, asking
from kerneldb.report.model import Advice
from kerneldb.report.wording import in_words, often, where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kerneldb.api import Database

MOST: Final = 7
"""Sentences of a verdict: what comes after these matters little beside them."""
SINGLE: Final = {
    "times": "once",
    "calls": "1 call",
    "long calls": "1 long call",
    "copies": "1 copy",
    "launches": "1 launch",
    "launch calls": "1 launch call",
    "collectives": "1 collective",
    "pieces": "1 piece",
    "pauses": "1 pause",
    "runs": "1 run",
}
ONE: Final = re.compile(rf"(?<![\w,.])1 ({'|'.join(SINGLE)})\b")
PARTS: Final = {
    "computation": "computing",
    "communication": "communication that nothing hides",
    "copy": "copies that nothing hides",
    "host": "waiting for the host",
    "queue": "waiting for launches to start",
    "unattributed": "idle, cause unknown",
}
"""What the parts of `wall_time_budget` are called in a sentence."""
BUSY: Final = {"computation": "fills", "copy": "copies"}
"""The same where no kernels were recorded: nobody knows what the GPU did in the time of the others."""
BETWEEN: Final = "between them, of which nothing is known"
NO_KERNELS: Final = "Only copies and fills were recorded: whether kernels ran beside and between them is not known."
LATE: Final = frozenset({"host-late", "host-pauses"})
"""Rules about single pauses, of which a trace of a few launches has as many as it has launches."""
NO_TIMELINE: Final = "No timeline, only sums or counters of kernels: what the time between them went to is not known."
NO_WORK: Final = "Neither a timeline of the GPU nor sums of kernels: nobody knows what ran (kerneldb db doctor FILE)."
NO_HOST: Final = "No launch calls were recorded, so what the GPU waited for is not known."
NEXT_TO_ALL: Final = 0.9
FEW: Final = 20
FEW_LAUNCHES: Final = "The trace has only {launches:,} launches: too few to say what the program does."
CAPTURED: Final = (
    "{calls:,} launch calls, but {launches:,} launches: the others were captured into a graph, or not recorded "
    "(kerneldb db doctor)."
)
BEFORE: Final = (
    "{before:,} of {launches:,} launches were made before the recorded window began, so neither their calls nor their "
    "operators are known: synchronise before the profiler starts, or use schedule(wait=1, warmup=1, active=…)."
)
NO_STACKS: Final = "No Python stacks were recorded (with_stack=True), so lines of code are not known."


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Where the wall time of a trace went, in ns: the sum over `parts` (part → ns) is `span_ns`, over all its devices.

    `advice` has the time at stake of each piece, most first; `unknown` says what the trace cannot tell. Without a
    timeline `span_ns` is 0.
    """

    trace: str
    devices: int
    span_ns: int
    parts: dict[str, int]
    advice: tuple[Advice, ...]
    unknown: tuple[str, ...]
    has_kernels: bool = True

    def first(self) -> tuple[Advice, ...]:
        """The pieces that a verdict has room for."""
        return self.advice[:MOST]

    def headline(self) -> str:
        """The parts in a sentence, largest first; their shares add up to all of the time."""
        if not self.span_ns:
            return ""
        parts: Counter[str] = Counter()
        for part, ns in self.parts.items():
            parts[PARTS[part] if self.has_kernels else BUSY.get(part, BETWEEN)] += ns
        ordered = sorted(parts.most_common(), key=lambda part: part[0] == BETWEEN)
        shares = {words: f"{100 * ns / self.span_ns:.1f}" for words, ns in ordered}
        told = [f"{share} % {words}" for words, share in shares.items() if share != "0.0"]
        each = duration(self.span_ns / max(self.devices, 1))
        of = f", added up over {self.devices} GPUs ({each} a GPU)" if self.devices > 1 else ""
        return f"{duration(self.span_ns)} from the first launch to the last{of}: {', '.join(told)}."


def verdicts(database: Database, traces: Sequence[str]) -> list[Verdict]:
    """The verdict on each of the traces."""
    with asking(database) as ask:
        return [verdict(ask.about(trace=trace)) for trace in traces]


def verdict(ask: Asking) -> Verdict:
    """The verdict on the trace that `ask` is about."""
    causes = ask.rows("wall_parts")
    known: Counter[str] = Counter()
    for row in causes:
        known[row["part"]] += row["wall_ns"]
    program, *_ = ask.rows("program")  # several where a database that others made holds a trace twice
    found = [_blamed(ask, piece) for piece in _unrepeated(list(_advice(ask, program, causes)))]
    advice = sorted(found, key=functools.partial(_rank, program=program))
    devices, span = (causes[0]["devices"], causes[0]["span_ns"]) if causes else (0, 0)
    parts = dict(known.most_common())
    unknown = tuple(_unknown(ask, parts, program))
    return Verdict(ask.params["trace"], devices, span, parts, tuple(advice), unknown, program["has_kernels"])


def _unrepeated(advice: list[Advice]) -> list[Advice]:
    """Without the sum of computation where one kernel is next to all of it and nothing more is known."""
    rows = {piece.rule: piece.row for piece in advice}
    one, computed = rows.get("one-kernel"), rows.get("computation")
    if one and computed and computed["known_ns"] is None and one["total_ns"] >= NEXT_TO_ALL * computed["total_ns"]:
        return [piece for piece in advice if piece.rule != "computation"]
    return advice


def _blamed(ask: Asking, piece: Advice) -> Advice:
    """Of waiting for a rank, with what that rank did longer than this one, and its host after a wait of its own."""
    if piece.rule != "late-rank":
        return piece
    rows = ask.also({"traces": [ask.params["trace"]]}).rows("stragglers")
    for blamed in ranks.late([row for row in rows if row["late_rank"] == piece.row["late_rank"]]):
        if blamed.is_computing():
            return dataclasses.replace(piece, remedy=f"{piece.remedy} Here, {blamed.reason()}.")
    for late in ask.also({"late_rank": piece.row["late_rank"]}).rows("late_trace"):
        for row in ask.about(trace=late["trace"], least_pct=1).rule_rows("advice_synchronising"):
            if row["frame"]:
                said = f"There, the host spends {duration(row['frame_ns'])} in {row['doing']} after {row['call']}."
                return dataclasses.replace(piece, remedy=f"{piece.remedy} {said}")
    return piece


def _rank(piece: Advice, program: dict[str, Any]) -> tuple[bool, float]:
    """Most time at stake first; of a trace with next to no launches what ran, and not the pauses between."""
    is_last = piece.rule in LATE and (program["launches"] or FEW) < FEW
    return is_last, -(piece.row.get("rank_ns") or piece.at_stake_ns or 0)


def _advice(ask: Asking, program: dict[str, Any], causes: list[dict[str, Any]]) -> Iterator[Advice]:
    there = {row["cause"] for row in causes}
    for rule in RULES:
        if rule.cause not in {None, *there} or not program[rule.needs]:
            continue  # planning a statement takes longer than seeing that it has nothing to say
        about = ask.also(rule.params)
        for row in about.rule_rows(rule.statement)[:1]:
            vendor = program["vendor"]
            remedy = rule.advice(vendor, is_torch=program["is_torch"])
            texts = rule.sentence, remedy, rule.evidence, *rule.command
            sentence, remedy, evidence, *command = _worded(rule, row, vendor, *texts, program=program)
            yield Advice(
                rule.name,
                rule.version,
                sentence,
                remedy,
                row["at_stake_ns"],
                about.rule_sql(rule.statement),
                tuple(command),
                evidence,
                row,
            )


def _worded(rule: Rule, row: dict[str, Any], vendor: str, *texts: str, program: dict[str, Any]) -> Iterator[str]:
    """The texts of a rule with the figures of the row."""
    values = {key: UNITS.get(key.rpartition("_")[2], _plain)(value) for key, value in row.items()}
    values["where"] = where(row)
    values["stacks"] = " (with_stack=True records the lines)" if program["lacks_stacks"] else ""
    values["hidden"] = " that no kernel hides" if program["has_kernels"] else ""
    values["beside"] = "no kernel ran at the same time" if program["has_kernels"] else "these copies were recorded"
    more = {"often": often(row), **(rule.more(row) if rule.more else {})}
    values |= {name: in_words(word, vendor).format_map(values) for name, word in more.items()}
    return (ONE.sub(_single, in_words(text, vendor).format_map(values)) for text in texts)


def _plain(value: object) -> object:
    return value


UNITS: Final[dict[str, Callable[[Any], object]]] = {"ns": duration, "bytes": size}
"""How columns are written whose names end in a unit."""


def _single(match: re.Match[str]) -> str:
    return SINGLE[match[1]]


def _unknown(ask: Asking, known: dict[str, int], program: dict[str, Any]) -> Iterator[str]:
    """What the trace cannot tell."""
    if not known:
        yield NO_TIMELINE if program["has_kernels"] else NO_WORK
        return
    if not program["has_kernels"]:
        yield NO_KERNELS
        return
    if (launches := program["launches"] or FEW) < FEW:
        ((calls,),) = (row.values() for row in ask.rows("launch_calls"))
        if calls > 2 * launches:
            yield CAPTURED.format(calls=calls, launches=launches)
        else:
            yield ONE.sub(_single, FEW_LAUNCHES.format(launches=launches))
    if program["launched_before"]:
        yield BEFORE.format(before=program["launched_before"], launches=launches)
    if "host" not in known and "queue" not in known and "unattributed" in known:
        yield NO_HOST
    elif program["lacks_stacks"]:
        yield NO_STACKS
