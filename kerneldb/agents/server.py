"""`kerneldb mcp`: the database as tools of the Model Context Protocol, by the official Python SDK (`mcp`, MIT).

Tools read; what runs something on a GPU or writes is refused unless the user allowed it when the server was started.
Source of the protocol: https://modelcontextprotocol.io/specification.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from kerneldb.agents import RUNS, answers, skill
from kerneldb.agents.answers import MOST_ROWS, ROWS, Page, of_query, of_statement, refusal, together
from kerneldb.agents.running import Runner
from kerneldb.errors import GateError, KerneldbError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mcp.server import MCPServer

    from kerneldb.api import Database
    from kerneldb.api.analyses import Difference
    from kerneldb.api.history import History

    Tool = Callable[..., dict[str, Any]]
    Awaited = Callable[..., Awaitable[dict[str, Any]]]

HOST: Final = "127.0.0.1"
"""The server listens to this machine only."""
By = Literal["kernel", "signature", "category", "library", "op", "dtype", "phase", "device", "trace"]


def require() -> None:
    """Raise KerneldbError where the SDK is not installed."""
    if importlib.util.find_spec("mcp") is None:
        raise KerneldbError("the server needs the MCP SDK: pip install 'kerneldb[mcp]'")


def serve(database: Database, allowed: Iterable[str], port: int | None) -> None:
    """Serve one agent over stdin and stdout, or (`port`) agents of this machine over streamable HTTP, until the end."""
    made = server(database, allowed)
    if port is None:
        made.run("stdio")
    else:
        made.run("streamable-http", host=HOST, port=port)


def server(database: Database, allowed: Iterable[str] = ()) -> MCPServer:
    """The server with all tools; `allowed` are those of `RUNS` that may run something and store what it measured."""
    require()
    from importlib.metadata import version

    from mcp.server import MCPServer
    from mcp_types import ToolAnnotations

    made = MCPServer(
        "kerneldb", instructions=skill.instructions(), version=version("kerneldb"), log_level="CRITICAL"
    )  # fmt: skip
    tools = Tools(database, Runner(database, frozenset(allowed)))
    for name in TOOLS:
        tool = getattr(tools, name)
        reads = ToolAnnotations(read_only_hint=name not in RUNS, open_world_hint=False)
        made.tool(name, description=inspect.getdoc(tool), annotations=reads)(_safe(tool, name))
    return made


def _safe(tool: Tool, name: str) -> Awaited:
    """The tool, which answers with a reason where it would fail; with the types that its text names."""
    from kerneldb.agents import ending

    @functools.wraps(tool)
    async def wrapper(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return await ending.awaited(functools.partial(tool, *args, **kwargs), ending.seconds_of(name))

    known = inspect.signature(tool, eval_str=True)
    described = [one.replace(annotation=_described(one.annotation)) for one in known.parameters.values()]
    wrapper.__signature__ = known.replace(parameters=described)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {one.name: one.annotation for one in described} | {"return": known.return_annotation}
    return wrapper


def _described(kind: Any) -> Any:
    """A type whose note becomes the description that agents read."""
    from pydantic import Field

    return (
        Annotated[kind.__origin__, Field(description=kind.__metadata__[0])] if hasattr(kind, "__metadata__") else kind
    )


TOOLS: Final = (
    "schema", "query", "traces", "top", "why", "diff", "show", "roofline", "history", "replays", *RUNS,
)  # fmt: skip
Limit = Annotated[int, f"Rows of the page, 1 to {MOST_ROWS}."]
Offset = Annotated[int, "Rows to skip: next_offset of the page before."]
Where = Annotated[str | None, "SQL condition over the view kernels, such as \"category = 'GEMM'\"."]
Traces = Annotated[list[str] | None, "Only these traces, by name."]
Chosen = Annotated[str, "SQL condition over the view kernels: which launches to run again."]
Device = Annotated[str, "cuda:N or cpu."]
FailOn = Annotated[
    float | None, "Also say whether it passes a gate: fails where something got slower by so many percent."
]


class Tools:
    """The tools, a method each; their texts are what agents read."""

    def __init__(self, database: Database, runner: Runner) -> None:
        self._database = database
        self._runner = runner

    def schema(self, object: str | None = None, limit: Limit = ROWS, offset: Offset = 0) -> dict[str, Any]:  # noqa: A002 (the name that agents see)
        """Say what can be asked: tables, views and macros; with `object`, its columns, units and an example."""
        if object is not None:
            self._database.schema_about(object)
        return of_statement(self._database, "agents_schema", {"object": object}, Page(limit, offset))

    def query(
        self,
        sql: Annotated[str, "One SELECT in DuckDB's SQL. Times are integer ns, sizes bytes, energies mJ."],
        where: Where = None,
        traces: Traces = None,
        limit: Limit = ROWS,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Run one read-only SELECT. With `where` or `traces` it may read the chosen launches as `selection`.

        To repeat the numbers of another answer, give its query, where and traces.
        """
        return of_query(self._database, sql, Page(limit, offset, where, tuple(traces or ())))

    def traces(self, limit: Limit = ROWS, offset: Offset = 0) -> dict[str, Any]:
        """List the traces: profiler, GPUs, number of launches, tags such as the commit."""
        return of_statement(self._database, "agents_traces", {}, Page(limit, offset))

    def top(
        self, by: By = "kernel", where: Where = None, traces: Traces = None, limit: Limit = ROWS, offset: Offset = 0
    ) -> dict[str, Any]:
        """Say where the GPU time goes: launches and time by kernel, operator, category and so on, most first."""
        page = Page(limit, offset, where, tuple(traces or ()))
        answer = of_statement(self._database, "agents_top", {"by": by, "selected": page.selects}, page)
        reasons = [] if answer["rows"] or where is None else self._database.absent_values(where, page.traces)
        return answers.sentence(answer["rows"], answer, "; ".join(reasons) or "no launch meets the condition")

    def why(self, trace: Annotated[str, "Name of the trace."]) -> dict[str, Any]:
        """Say why a trace takes so long and what to do: causes by time at stake, each with its evidence and query."""
        from kerneldb.api.queries import require_traces
        from kerneldb.report import why

        require_traces(self._database.warehouse, [trace])
        (verdict,) = why.verdicts(self._database, [trace])
        advice = [
            {
                "sentence": answers.shortened(piece.sentence, 900),
                "remedy": answers.shortened(piece.remedy, 900),
                "at_stake_ns": piece.at_stake_ns,
                "evidence": answers.shortened(piece.evidence, 900),
                "rule": f"{piece.rule} {piece.version}",
                "query": piece.sql,
                "figures": answers.plain(piece.row),
            }
            for piece in verdict.advice
        ]
        budget = of_statement(self._database, "agents_wall", {}, Page(traces=(trace,)))
        return together(
            {"wall_time": budget}, advice=advice, unknown=[answers.shortened(one) for one in verdict.unknown]
        )

    def diff(
        self,
        before: Annotated[str, "Name of a trace, run or label, or a pattern such as nightly-*."],
        after: Annotated[str, "The same, of the other side."],
        threshold_pct: Annotated[float, "Smaller changes of a mean are unchanged."] = 3.0,
        fail_on_pct: FailOn = None,
        limit: Limit = ROWS,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Say what changed between two traces or runs, kernel by kernel, with the p-value of each change."""
        from kerneldb.api import analyses

        asked = {"before": before, "after": after, "threshold": threshold_pct / 100}
        sides = {
            side: analyses.traces_named(self._database.warehouse, name)
            for side, name in (("before", before), ("after", after))
        }
        answer = of_statement(self._database, "agents_diff", asked, Page(limit, offset))
        if fail_on_pct is None:
            return answer
        iterations = {
            f"iterations_{side}": of_statement(
                self._database, "analysis_steady_state", {"names": names}, Page(traces=tuple(names))
            )
            for side, names in sides.items()
        }
        compared = analyses.difference(self._database.warehouse, before, after, None, threshold_pct / 100)
        return {**answer, "gate": _gate(compared, fail_on_pct), "parts": iterations}

    def show(
        self, kernel: Annotated[str, "Name of a kernel, a part of it, or the id of a signature."]
    ) -> dict[str, Any]:
        """Say what is known of one kernel: decoded name, operator call, launch configuration, work, times, counters."""
        from kerneldb.api import signature

        asked = {"signature_id": signature.find(self._database.warehouse, kernel)}
        names = {"facts": "signature", "times": "signature_times", "counters": "ncu_signature_counters"}
        wanted = asked | {"traces": None}
        parts = {part: of_statement(self._database, name, wanted, Page()) for part, name in names.items()}
        return together(parts, **asked)

    def roofline(
        self, where: Where = None, traces: Traces = None, limit: Limit = ROWS, offset: Offset = 0
    ) -> dict[str, Any]:
        """Say how near each kernel is to the peaks of its GPU: FLOP/s, bytes/s, bound, and how the work is known."""
        page = Page(limit, offset, where, tuple(traces or ()))
        answer = of_statement(self._database, "agents_roofline", {}, page)
        return answers.sentence(answer["rows"], answer, "no selected launch is a kernel with a duration")

    def history(  # noqa: PLR0917 (names that agents give)
        self,
        workload: str | None = None,
        branch: str | None = None,
        subject: Annotated[str | None, "kernel, operator, module, budget, total, energy or measured."] = None,
        since: Annotated[str | None, "A commit, or a time such as 2026-11-24."] = None,
        fail_on_pct: FailOn = None,
        limit: Limit = ROWS,
        offset: Offset = 0,
    ) -> dict[str, Any]:
        """Say what changed for good over the commits of a program: range, culprit, interval, and cause.

        The program's own causes are code and launches; the machine's are clocks, driver, software and machine.
        """
        from kerneldb.api import history
        from kerneldb.history.model import VERSION

        start = None if since is None else history.since(self._database.warehouse, since)
        asked = history.Asked(workload, branch, subject, start)
        found = history.ask_history(self._database.warehouse, asked)
        if not found.series:
            return refusal("no trace has a commit; kerneldb ingest TRACE --commit auto notes it")
        answer = of_statement(self._database, "history_changes", dataclasses.asdict(asked), Page(limit, offset))
        of_series = {"workload": workload, "branch": branch, "version": VERSION}
        gate = {} if fail_on_pct is None else {"gate": _gate(found, fail_on_pct)}
        return {
            **answer,
            **gate,
            "parts": {"series": of_statement(self._database, "history_series", of_series, Page())},
        }

    def replays(self, limit: Limit = ROWS, offset: Offset = 0) -> dict[str, Any]:
        """Say what replays measured: grade (L0: same kernel, same launch), time and energy with 95 % intervals."""
        answer = of_statement(self._database, "agents_replays", {}, Page(limit, offset))
        return answers.sentence(answer["rows"], answer, "nothing was replayed yet; the tool replay does, where allowed")

    def replay(
        self,
        where: Chosen,
        traces: Traces = None,
        device: Device = "cuda:0",
        dry_run: Annotated[bool, "Only plan: which launches could run again, and how."] = False,
    ) -> dict[str, Any]:
        """Run the chosen kernels again on the GPU of this machine and store what was measured, if allowed."""
        return self._runner.replay(_launches(where, traces, device), dry_run=dry_run)

    def counters(
        self,
        where: Chosen,
        sets: Annotated[str, "roofline, memory, compute, or names of metrics, with commas between."] = "roofline",
        traces: Traces = None,
        device: Device = "cuda:0",
    ) -> dict[str, Any]:
        """Read hardware counters of the chosen kernels, run again under Nsight Compute, and store them, if allowed."""
        chosen = Page(MOST_ROWS, where=where, traces=tuple(traces or ()))
        return self._runner.counters(_launches(where, traces, device), sets, chosen)

    def improve(
        self,
        trace: Annotated[str, "Name of the trace; one recorded with stacks gets a patch."],
        iteration: Annotated[str | None, "Which step, by label or number."] = None,
        seconds: Annotated[float, "For all of it."] = 120.0,
        device: Device = "cuda:0",
        dry_run: Annotated[bool, "Only list the rewrites and the step."] = False,
    ) -> dict[str, Any]:
        """Try rewrites in a recorded step on the GPU of this machine; what each gains, and a patch, if allowed.

        The patch is a Python file: read it, then `python PATCH program.py`. Its gain is the program's once that ran.
        """
        options = ["--device", device, "--seconds", f"{seconds:g}"]
        options += [] if iteration is None else ["--iteration", iteration]
        return self._runner.improve(trace, options, dry_run=dry_run)


def _launches(where: str, traces: Sequence[str] | None, device: str) -> list[str]:
    """The options that choose launches, and the device that they run on."""
    named = [word for name in traces or () for word in ("--trace", name)]
    return ["--where", where, "--device", device, "--format", "json", *named]


def _gate(found: Difference | History, limit_pct: float) -> dict[str, Any]:
    """Whether a comparison passes, and why it does not."""
    try:
        found.check(limit_pct)
    except GateError as error:
        return {"fail_on_pct": limit_pct, "passed": False, "reason": answers.shortened(str(error), 4 * answers.TEXT)}
    return {"fail_on_pct": limit_pct, "passed": True}
