"""Asks the questions of a report and arranges the answers."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.queries import statement
from kerneldb.report import charts, contents, counters
from kerneldb.report.asking import Asking, asking, literal, spelled
from kerneldb.report.findings import RULES, Rule
from kerneldb.report.model import Chart, Finding, Report, Section, Table
from kerneldb.report.values import duration

if TYPE_CHECKING:
    from kerneldb.api import Database

NO_TIMES: Final = "Counters only: no trace with times of its own is among these."
NO_WORK: Final = "No FLOPs known: record shapes, collect counters, or name them (kerneldb db annotate)."
TOGETHER: Final = (
    "One point per kernel, launch shape and call. Rates are of all its launches together, long ones weigh more; "
    "work from counters is the mean of the launches that were profiled."
)
ALL_SHORT: Final = 90


def single(database: Database, names: Sequence[str], rule: str | None = None) -> Report:
    """The report on the traces that `names` mean (see `named`). Raises UsageError for an unknown name or rule.

    Each trace with times has its own sections; counters of all of them stand together, by model of GPU, with those of
    the run of a trace with times. `rule` is the rule of `bounds` by which counters are classified. The launches of a
    trace that are primary in another one are in the sections of that one.
    """
    counters.check_rule(database, rule)
    meant = [row for name in names for row in named(database, name)]
    instead = {trace: other for trace, _, other in database.repeated_by([row["trace"] for row in meant])}
    known = {row["trace"]: row for row in meant}
    for trace in [row["trace"] for row in meant if row["trace"] in instead and row["kind"] != "profiled"]:
        del known[trace]
        known |= {row["trace"]: row for row in named(database, instead[trace])}
    found = list(known.values())
    with asking(database) as ask:
        sections = _sections(ask, found, rule)
    return Report(f"GPU kernels of {', '.join(names)}", made(database), tuple(sections))


def _sections(ask: Asking, found: Sequence[dict[str, Any]], rule: str | None) -> list[Section]:
    """Those of each trace with times, those of the counters of all, and the appendices."""
    timed = [Maker(ask, row["trace"]) for row in found if row["kind"] != "profiled"]
    sections: list[Section] = []
    for maker in timed:
        prefix = f"{maker.trace}: " if len(timed) > 1 else ""
        sections += [dataclasses.replace(part, title=prefix + part.title) for part in maker.sections()]
    if not timed:
        sections.append(Section("Setup", (), (), NO_TIMES))
    sections += counters.sections(ask, [row["trace"] for row in found], rule)
    return sections + [maker.names() for maker in timed]


def findings(database: Database, traces: Sequence[str]) -> list[tuple[str, Finding]]:
    """What the rules say of each of the traces, with its name, most time at stake first."""
    with asking(database) as ask:
        found = [(trace, finding) for trace in traces for finding in Maker(ask, trace).findings()]
    return sorted(found, key=lambda one: -(one[1].at_stake_ns or 0))


def named(database: Database, name: str) -> list[dict[str, Any]]:
    """The traces that `name` means, with their kinds: a trace, else those of a run, of a label, or of a pattern.

    Raises UsageError where there is none.
    """
    rows = database.sql(statement("report_named"), {"name": name}).rows()
    if not rows:
        database.traces([name])
    return rows


def made(database: Database) -> str:
    """By which version, from which file and when."""
    from kerneldb import __version__

    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"made by kerneldb {__version__} from {database.path.name}, {now}"


def _asked_of(*, timed: bool, found: bool) -> str:
    """What to know about the findings: which rules could not be asked, and that none applies."""
    need = ", ".join(rule.name for rule in RULES if rule.needs)
    unasked = "" if timed else f"No timeline, which these rules need: {need}."
    return unasked if found else f"{unasked} No rule found anything.".strip()


class Maker:
    """Makes the sections for one trace."""

    def __init__(self, ask: Asking, trace: str) -> None:
        self._ask = ask
        self.trace = trace

    def sections(self) -> list[Section]:
        """Setup, findings and times."""
        timed = bool(self._rows("gpu_time"))
        findings = tuple(self.findings())
        found = [
            Section("Setup", (self.table(contents.SETUP), self.table(contents.LACKS))),
            Section("Findings", (), findings, _asked_of(timed=timed, found=bool(findings))),
            self._top(),
        ]
        if timed:
            found += self._time()
        return found

    def names(self) -> Section:
        """The appendix."""
        return Section(f"Full names: {self.trace}", (self.table(contents.NAMES),))

    def _top(self) -> Section:
        top, categories = self.table(contents.TOP), self.table(contents.CATEGORIES)
        drawn = [
            self._chart("Share of GPU time by category", categories, "category", "share_pct", "share of GPU time in %"),
            self._chart("Top kernels", top, "kernel", "share_pct", "share of GPU time in %"),
        ]
        others = tuple(map(self.table, (contents.OPERATORS, contents.PHASES, contents.OCCUPANCY)))
        return Section("Where the GPU time goes", (*(one for one in drawn if one), top, categories, *others))

    def _time(self) -> list[Section]:
        lanes = self._rows("timeline")
        timeline = [Chart("Streams over time", charts.lanes(lanes), self._sql("timeline"))] if lanes else []
        return [
            Section("Timeline", (*timeline, self.table(contents.GPU_TIME), self.table(contents.IDLE))),
            self._roofline(),
            Section("Iterations", tuple(self._iterations())),
            *self._replayed(),
            Section(
                "What could be less",
                tuple(
                    map(self.table, (contents.OVERHEAD, contents.FUSION, contents.CONVERSIONS, contents.COLLECTIVES))
                ),
            ),
        ]

    def _iterations(self) -> list[Table | Chart]:
        rows = self._rows("iteration_times")
        sql = self._sql("iteration_times")
        drawn = [Chart("GPU time of each", charts.columns(rows, "iteration", "total_ms", "ms"), sql)] if rows else []
        return [self.table(contents.ITERATIONS), *drawn]

    def _replayed(self) -> list[Section]:
        """Replays and closure, where there are any."""
        plans = (contents.CLOSURE, contents.REPLAYS) if self._ask.rows("report_measured") else (contents.REPLAYS,)
        found = [table for plan in plans if (table := self.table(plan)).rows]
        kernels = self.table(contents.REPLAYED_KERNELS)
        return [Section("Replay and closure", (*found, kernels))] if found else []

    def _roofline(self) -> Section:
        points = self._rows("roofline")
        table = Table(contents.ROOFLINE.caption, contents.ROOFLINE.columns, points[:20], self._sql("roofline"), NO_WORK)
        roofed = [{**point, "ridge": point["ridge"]} for point in points if point["peak_flops_per_second"]]
        drawn = [Chart("Roofline", charts.roofline(points, charts.roofs(roofed, "dtype")), table.sql)] if points else []
        return Section("Roofline", (*drawn, table), (), TOGETHER if points else "")

    def table(self, plan: contents.Plan) -> Table:
        """The table of a plan."""
        rows = self._rows(plan.query)
        filled = [column for column in plan.columns if any(row[column.name] is not None for row in rows)]
        columns = tuple(filled) if plan.is_sparse and rows else plan.columns
        return Table(plan.caption, columns, rows, self._sql(plan.query), plan.missing)

    def _chart(self, caption: str, table: Table, label: str, value: str, title: str) -> Chart | None:
        rows = [{**row, label: str(row[label])[:ALL_SHORT]} for row in table.rows if row[value] is not None]
        keep = [{key: row[key] for key in (label, value, "n")} for row in rows]
        return Chart(caption, charts.bars(keep, label, value, title, ["n"]), table.sql) if keep else None

    def findings(self) -> list[Finding]:
        """What the rules say, most time at stake first."""
        (program,) = self._rows("program")
        found = [finding for rule in RULES if (finding := self._finding(rule, program)) is not None]
        return sorted(found, key=lambda finding: -(finding.at_stake_ns or 0))

    def _finding(self, rule: Rule, program: dict[str, Any]) -> Finding | None:
        name = f"finding_{rule.name.replace('-', '_')}"
        rows = self._ask.finding(name, rule.needs, self.trace)
        if not rows:
            return None
        values = {key: duration(value) if key.endswith("_ns") else value for key, value in rows[0].items()}
        sentence = rule.sentence.format(**values)
        advice = rule.advice(program["vendor"], is_torch=program["is_torch"])
        sql = spelled(name, rule.needs, self.trace)
        command = tuple(word.format(**values) for word in rule.command)
        return Finding(rule.name, rule.version, sentence, advice, rows[0]["at_stake_ns"], sql, command)

    def _rows(self, query: str) -> list[dict[str, Any]]:
        return self._ask.rows(f"report_{query}", {"trace": self.trace})

    def _sql(self, query: str) -> str:
        return literal(statement(f"report_{query}"), self.trace)
