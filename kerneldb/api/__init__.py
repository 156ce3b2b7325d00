"""The Python API: one class, `Database`, that does what the commands do. Here ingest and warehouse meet.

A `Database` holds no connection. Every call takes the file for as long as it needs it, so several programs can work
with one file in turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerneldb.api import queries
from kerneldb.api.ingestion import IngestOptions, Outcome, ProgressCallback, ReportEntry, ingest_each, outcome_table
from kerneldb.api.notebook import InNotebooks
from kerneldb.api.result import Result
from kerneldb.api.store import WarehouseStore, place_of
from kerneldb.errors import KerneldbError
from kerneldb.output.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    import pyarrow as pa

    from kerneldb.api import analyses, counters, upkeep
    from kerneldb.api.history import History
    from kerneldb.api.planning import Planned, Request
    from kerneldb.api.reconciliation import Reconciliation
    from kerneldb.api.recording import Recorded
    from kerneldb.api.signature import SignaturePage
    from kerneldb.replay.host.run import Outcome as ReplayOutcome
    from kerneldb.replay.options import Options
    from kerneldb.replay.recording.settings import Settings
    from kerneldb.replay.wire.plan import Plan
    from kerneldb.warehouse import Warehouse
    from kerneldb.warehouse.history import Added

DEFAULT_DATABASE = "kernels.duckdb"
LOCK_TIMEOUT_S = 30.0


def open(  # noqa: A001 (kerneldb.open is the name users expect)
    path: str | Path | None = None, *, create: bool = True, lock_timeout: float = LOCK_TIMEOUT_S
) -> Database:
    """Open the database file `path` (default: KERNELDB_DB, else kernels.duckdb in the current folder).

    With `create`, a missing file appears with the first trace that is ingested. `lock_timeout` is how many seconds to
    wait for another process. A lake is given as 'ducklake:postgres:…' or 'ducklake:sqlite:…', and must be there.

    Raises WarehouseMissingError where the file is missing and `create` is false, WarehouseVersionError where it is no
    kerneldb database.
    """
    import os

    chosen = path if path is not None else os.environ.get("KERNELDB_DB") or DEFAULT_DATABASE
    store = WarehouseStore(place_of(chosen), lock_timeout)
    if not create or store.is_begun():
        store.existing()
    return Database(store)


class Database(InNotebooks):
    """A database file or a lake. Made by `kerneldb.open`. `path` is the file; a lake's own files stand beside it."""

    def __init__(self, store: WarehouseStore) -> None:
        self.path = store.path
        self._store = store

    def __repr__(self) -> str:
        """The class and the place."""
        return f"<Database {escape(str(self._store.place))}>"

    def __enter__(self) -> Self:
        """The database; leaving the context lets its file go."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the file go."""
        self.close()

    def close(self) -> None:
        """Let the file go at once, or half a second after a question under way; a further one opens it again.

        It happens by itself half a second after the last question, and at once where another kerneldb waits to write.
        Until then other programs, and `duckdb.connect` in this one, can read the file, but not write it.
        """
        self._store.close()

    @property
    def warehouse(self) -> Warehouse:
        """The warehouse itself, for front ends that stay open (`kerneldb.api.browsing`)."""
        return self._store.existing()

    def ingest(  # noqa: PLR0913 (what a user may say about a trace)
        self,
        paths: str | Path | Sequence[str | Path],
        *,
        label: str | None = None,
        phase: str | None = None,
        name: str | None = None,
        run: str | None = None,
        tags: Mapping[str, str] | None = None,
        replace: bool = False,
        keep_environment: bool = False,
        time_zone: str | None = None,
        date: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> list[Outcome]:
        """Read traces (files, zips or folders of them) into the database; one outcome per trace.

        A trace with the same content is left alone unless `replace`. All files are tried; then the first error, if any,
        is raised, with a note for each further one. `ingest_each` yields errors instead.
        """
        wanted = IngestOptions(
            label, phase, name, run, dict(tags or {}), replace, keep_environment, time_zone=time_zone, date=date
        )
        outcomes = list(self.ingest_each([paths] if isinstance(paths, str | Path) else paths, wanted, progress))
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        if errors:
            for other in errors[1:]:
                errors[0].add_note(str(other))
            raise errors[0]
        return outcomes

    def ingest_each(
        self, paths: Sequence[str | Path], options: IngestOptions, progress: ProgressCallback | None = None
    ) -> Iterator[Outcome]:
        """Ingest lazily: yields each outcome as it is known; a file that fails yields one with its error.

        Traces with a commit enter the history at the end.
        """
        yield from ingest_each(self._store, self._store.spools, [Path(path) for path in paths], options, progress)
        if "commit" in options.tags and self._store.place.exists():
            self.update_history()

    def update_history(self) -> Added:
        """Take traces with a commit into the history, and look for changes where a run is new."""
        from kerneldb.warehouse import history

        return history.update(self.warehouse)

    def history(
        self,
        workload: str | None = None,
        *,
        branch: str | None = None,
        subject: str | None = None,
        since: str | None = None,
    ) -> History:
        """What changed for good over the commits of a program; `since` is a commit or a time."""
        from kerneldb.api import history

        start = None if since is None else history.since(self.warehouse, since)
        return history.ask_history(self.warehouse, history.Asked(workload, branch, subject, start))

    def ingest_with_ray(
        self, paths: Sequence[str | Path], options: IngestOptions, address: str | None = None
    ) -> Iterator[Outcome]:
        """Ingest into a lake by tasks of a Ray cluster; see `kerneldb.api.clustering`."""
        from kerneldb.api import clustering

        clustering.require_lake(self._store.place)
        return clustering.ingest_with_ray(self._store.place.uri, [Path(path) for path in paths], options, address)

    def sql(
        self,
        query: str,
        params: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        where: str | None = None,
        timeout: float | None = None,
        write: bool = False,
    ) -> Result:
        """Run `query`, with `params` bound to its placeholders.

        With `where`, a condition over the view `kernels`, the query reads the launches that meet it as the table
        `selection`. Read-only unless `write`. Raises QueryError with the engine's message, SelectionError for a bad
        `where`, QueryTimeoutError after `timeout` seconds.
        """
        return Result(self.warehouse.query(query, params, where=where, timeout=timeout, write=write))

    def top(
        self,
        by: str = "kernel",
        *,
        where: str | None = None,
        traces: Sequence[str] = (),
        limit: int | None = None,
        sort: str = "total",
    ) -> Result:
        """Launches and GPU time by `by` (kernel, signature, category, op, phase, …), largest `sort` first."""
        result = Result(queries.top(self.warehouse, by, where, traces, sort))
        return result if limit is None else result.head(limit)

    def plan_replay(self, request: Request) -> Planned:
        """The plan of a replay of the selected kernels, and the route of each signature or why there is none."""
        from kerneldb.api import planning

        return planning.make_plan(self.warehouse, request)

    def keep_found(self, planned: Planned) -> None:
        """Store the calls that launches inherit by a plan, as a replay of it does."""
        from kerneldb.api import inheriting

        inheriting.keep(self.warehouse, planned.found)

    def inherit(self, traces: Sequence[str] = (), where: str | None = None) -> Result:
        """Find the calls of launches recorded without one among other launches, store them; how many, and how."""
        import pyarrow as pa

        from kerneldb.api import inheriting

        found = inheriting.inherit(self.warehouse, traces, where)
        return Result(pa.Table.from_pylist(inheriting.summary(found), schema=pa.schema(inheriting.SUMMARY)))

    def replay(
        self,
        planned: Planned | None,
        options: Options,
        listen: Callable[[Mapping[str, Any]], None] | None = None,
        *,
        gpus: str | None = None,
        ray: str | None = None,
    ) -> ReplayOutcome:
        """Replay a plan, or (None) go on with the run that was stopped; results are committed while it goes on.

        `gpus` (a number, or all) is on how many GPUs, with a worker each; `ray` (an address, or an empty text for that
        of RAY_ADDRESS) on those of a Ray cluster. `listen` is told of events (see
        `kerneldb.replay.host.run`). Raises ReplayError without PyTorch or device.
        """
        from kerneldb.api import replaying
        from kerneldb.api.resuming import Files

        files = Files.beside(self.path)
        return replaying.run(self.warehouse, planned, files, options, listen, gpus=gpus, ray=ray)

    def stopped_replay(self) -> Plan:
        """The plan of the replay that was stopped and can go on. Raises UsageError where there is none."""
        from kerneldb.api.resuming import Files

        return Files.beside(self.path).stopped_plan()

    def record(
        self,
        settings: Settings,
        folder: Path | None = None,
        *,
        resume: bool = False,
        listen: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> Recorded:
        """Record a model or a script into a folder, and ingest it; see `kerneldb.api.recording.record`."""
        from kerneldb.api import recording

        return recording.record(self, settings, folder, resume=resume, listen=listen)

    def read_journal(self, plan: Path, journal: Path) -> str:
        """Commit the journal of a plan that was replayed elsewhere; returns the id of the run."""
        from kerneldb.api import replaying

        return replaying.read_journal(self.warehouse, plan, journal)

    def replay_results(self, run_ids: str | Sequence[str]) -> Result:
        """Coverage and predicted against recorded time of a run, or of several together, by category and route."""
        from kerneldb.api import replaying

        return Result(replaying.results(self.warehouse, _several(run_ids)))

    def replay_counters(self, run_ids: str | Sequence[str]) -> Result:
        """Of which kernels of replays counters were read, by category, and why not of the others."""
        from kerneldb.api import replaying

        return Result(replaying.counted(self.warehouse, _several(run_ids)))

    def step_results(self, run_ids: str | Sequence[str]) -> Result:
        """What replays in context say: kernels in their place against the recording, and each step as a whole."""
        from kerneldb.api import stepping

        return Result(stepping.results(self.warehouse, _several(run_ids)))

    def step_disagreements(self, run_ids: str | Sequence[str]) -> Result:
        """The kernels of replays in context that took another time than recorded, or have none, and why."""
        from kerneldb.api import stepping

        return Result(stepping.disagreements(self.warehouse, _several(run_ids)))

    def analyze(self, name: str, *, where: str | None = None, traces: Sequence[str] = ()) -> Result:
        """The rows of the table macro `name` (idle, overlap, collectives, iterations, …) over the selected launches.

        Raises UsageError for an unknown name.
        """
        queries.require("analysis", [name], queries.analyses())
        return Result(queries.selected(self.warehouse, f"analysis_{name}", where, traces))

    def wall_time(self, by: str | None = None, *, where: str | None = None, traces: Sequence[str] = ()) -> Result:
        """Where the wall time of each device went, by cause and `by` (phase, iteration), as in `wall_time_budget`.

        What `where` leaves out counts as if it had not run.
        """
        return Result(queries.selected(self.warehouse, "analysis_wall_budget", where, traces, {"by": by}))

    def critical_path(
        self, key: str = "cause", *, where: str | None = None, traces: Sequence[str] = (), most: int | None = None
    ) -> Result:
        """What decided when the last launch ended, by `key`, or its `steps`; see `critical.critical_path`."""
        from kerneldb.api import critical

        return Result(critical.critical_path(self.warehouse, key, where, traces, most))

    def what_if(self, *parts: str, where: str | None = None, traces: Sequence[str] = ()) -> Result:
        """How much sooner jobs would end if all `parts` (such as `kernel=*gemm*`, `cause=launching`) took no time."""
        from kerneldb.api import critical

        return Result(critical.what_if(self.warehouse, parts, where, traces))

    def memory(self, key: str = "root_op", *, traces: Sequence[str] = ()) -> Result:
        """What operators, modules or lines (`key`, as in `memory_by`) allocated, and held when most was in use."""
        queries.require_traces(self.warehouse, traces)
        asked = {"key": key, "names": list(traces) or None}
        return Result(self.warehouse.answer(queries.statement("analysis_memory"), asked))

    def diff(
        self, before: str, after: str, *, where: str | None = None, threshold: float = 0.03
    ) -> analyses.Difference:
        """What changed from `before` to `after`; changes of a mean up to `threshold` are none.

        Each names a trace, a run, a label, or traces by a pattern such as `nightly-*`, in that order.
        """
        from kerneldb.api import analyses

        return analyses.difference(self.warehouse, before, after, where, threshold)

    def diff_by(self, before: str, after: str, by: str, *, where: str | None = None, threshold: float = 0.03) -> Result:
        """What changed from `before` to `after`, summed `by` op, module, category, phase, dtype, kernel or cause."""
        from kerneldb.api import analyses

        return Result(analyses.difference_by(self.warehouse, before, after, by, where, threshold))

    def gpus_of(self, before: str, after: str) -> tuple[list[str], ...]:
        """The names of the GPUs on which each side of a comparison ran, as far as they are known."""
        from kerneldb.api import analyses

        return analyses.gpus(self.warehouse, before, after)

    def fusions(self, before: str, after: str, *, where: str | None = None) -> Result:
        """Which kernels of `before` became which of `after`, by what lies between the same products on both sides."""
        from kerneldb.api import fusions

        return Result(fusions.fusions(self.warehouse, before, after, where))

    def diff_counters(self, before: str, after: str, *, rule: str = "ncu") -> analyses.CounterDifference:
        """What changed between the hardware counters of two traces or runs: coverage, classes by `rule`, means."""
        from kerneldb.api import analyses

        return analyses.counter_difference(self.warehouse, before, after, rule)

    def bounds(
        self, rule: str = "ncu", *, where: str | None = None, traces: Sequence[str] = (), kernels: bool = False
    ) -> Result:
        """What `rule` says limits the selected profiled launches: a row per verdict with means, or (`kernels`) each."""
        from kerneldb.api import counters

        return Result(counters.bounds(self.warehouse, rule, where, traces, kernels=kernels))

    def ncu_rules(self, *, where: str | None = None, traces: Sequence[str] = (), everything: bool = False) -> Result:
        """What Nsight Compute's own rules say of the selected profiled launches; `everything`: information, too."""
        from kerneldb.api import counters

        return Result(counters.rules(self.warehouse, where, traces, everything=everything))

    def repeated_prints(self, traces: Sequence[str] = ()) -> list[str]:
        """Names of traces that hold a report of Nsight Compute once more than another trace of their run."""
        found = [row["trace"] for row in queries.ask(self.warehouse, "bounds_repeated")]
        return [name for name in found if not traces or name in traces]

    def bound_rules(self) -> Result:
        """The rules of `bounds`, with thresholds and sources."""
        return Result(self.warehouse.answer(queries.statement("bounds_rules")))

    def coverage(self, *, where: str | None = None, traces: Sequence[str] = (), top: int | None = None) -> Result:
        """Which of the selected kernels (the `top` ones by time, or all) have valid counters."""
        from kerneldb.api import counters

        return Result(counters.coverage(self.warehouse, where, traces, top))

    def ncu_command(self, wanted: counters.Counting) -> counters.NcuCommand:
        """The Nsight Compute line that counts the wanted kernels. UsageError where nothing timed is selected."""
        from kerneldb.api import counters

        return counters.ncu_command(self.warehouse, wanted)

    def reconciliation(
        self, names: str | Sequence[str] = (), *, where: str | None = None, top: int = 20
    ) -> Reconciliation:
        """What the replayed kernels predict, against time and energy measured whole, per trace, workload and mode."""
        from kerneldb.api import reconciliation

        return reconciliation.reconciliation(self.warehouse, _several(names), where, top)

    def annotate(
        self,
        where: str | None,
        notes: Mapping[str, str | float | None],
        *,
        traces: Sequence[str] = (),
        author: str | None = None,
    ) -> int:
        """Note `flops`, `bytes` (numbers, or arithmetic: "2*8192^3") and `role` of the kernels; None takes one off.

        Returns how many signatures it concerns. See `kerneldb.api.annotations`.
        """
        from kerneldb.api.annotations import annotate

        texts = {key: None if value is None else str(value) for key, value in notes.items()}
        return annotate(self.warehouse, where, traces, texts, author)

    def annotations(self, *, where: str | None = None, traces: Sequence[str] = ()) -> Result:
        """What is noted about the signatures of the selected launches."""
        return Result(queries.selected(self.warehouse, "annotate_list", where, traces))

    def compare(
        self,
        traces: Sequence[str],
        *,
        where: str | None = None,
        matches: Sequence[str] = (),
        iterations: int | None = None,
    ) -> Result:
        """Kernels of the traces side by side and the sums of an iteration; `matches` pairs names: "A=B"."""
        from kerneldb.api import analyses

        pairs = [analyses.pair_of(text) for text in matches]
        return Result(analyses.compare(self.warehouse, traces, where, pairs, iterations))

    def same_code(self, text: str) -> Result:
        """Kernels of the code object that holds the kernel of the signature that `text` means (see `show`).

        Nearest first; `differences` lists the tokens in which a Tensile name differs. Raises UsageError unless exactly
        one signature fits.
        """
        from kerneldb.api import signature

        of_kernel = {"signature_id": signature.find(self.warehouse, text)}
        return Result(self.warehouse.answer(queries.statement("same_code_of"), of_kernel))

    def show(self, text: str, *, traces: Sequence[str] = ()) -> SignaturePage:
        """Everything about the signature whose id starts with `text`, or whose kernel is named so.

        A name is whole, short or a part of it; with `traces`, the signature is one that ran in them. Raises UsageError
        unless exactly one signature fits.
        """
        from kerneldb.api import signature

        return signature.page(self.warehouse, text, traces)

    def signatures(self, text: str, *, traces: Sequence[str] = ()) -> Result:
        """The signatures that `text` may mean to `show`, most time first; `matched` says by what (id, name)."""
        queries.require_traces(self.warehouse, traces)
        asked = {"text": text, "traces": list(traces) or None}
        return Result(self.warehouse.answer(queries.statement("signature_ids"), asked))

    def traces(self, names: Sequence[str] = ()) -> Result:
        """The traces (all, or the named ones), with their notes."""
        return Result(queries.of_traces(self.warehouse, "trace_overview", names))

    def ingest_reports(self, names: Sequence[str] = ()) -> Result:
        """What ingest stored, repaired, skipped and lost, per trace."""
        return Result(queries.of_traces(self.warehouse, "trace_reports", names))

    def files(self, name: str) -> list[str]:
        """The paths of the files that the trace `name` was read from."""
        queries.require_traces(self.warehouse, [name])
        return [row["path"] for row in queries.ask(self.warehouse, "trace_files") if row["name"] == name]

    def tag(
        self, names: str | Sequence[str], tags: Mapping[str, str] | None = None, *, unset: Sequence[str] = ()
    ) -> None:
        """Set and unset notes (key and value) on the named traces."""
        removed: dict[str, str | None] = dict.fromkeys(unset)
        self.warehouse.tag(_several(names), {**removed, **(tags or {})})

    def repeated_by(self, traces: Sequence[str]) -> list[tuple[str, str, str]]:
        """(trace, run, trace that counts instead) of those `traces` whose work counts in another one of their run."""
        found = queries.ask(self.warehouse, "repeated_by", {"names": list(traces)}) if traces else []
        return [(row["trace"], row["run"], row["other"]) for row in found]

    def by_time(self) -> list[str]:
        """The traces that have GPU time, those with most first."""
        return queries.by_time(self.warehouse)

    def scope(self, traces: Sequence[str] = ()) -> tuple[int, list[str]]:
        """How many traces there are (of those named, where any is), and the GPUs that they ran on."""
        (found,) = queries.ask(self.warehouse, "scope", {"names": list(traces) or None})
        return found["traces"], found["gpus"] or []

    def kinds(self, traces: Sequence[str] = ()) -> list[str]:
        """The kinds of the traces that have launches or sums: timeline, profiled, summary, …."""
        (found,) = queries.ask(self.warehouse, "scope", {"names": list(traces) or None})
        return found["kinds"] or []

    def absent_values(self, where: str, traces: Sequence[str] = ()) -> list[str]:
        """A sentence for each text that `where` compares a column with that never has it: what it has instead.

        And for each column in it that only measuring fills, where nothing was measured.
        """
        from kerneldb.selection import Selection
        from kerneldb.warehouse.absent import absent_values, unmeasured

        with self.warehouse.connection() as con:
            rows = Selection(None, tuple(traces)).relation(con)
            return [*absent_values(rows, where), *unmeasured(rows, where)]

    def absent_texts(self, sql: str, where: str | None = None) -> list[str]:
        """As `absent_values`, of the texts that a statement compares columns with; `where` as in `sql`."""
        from kerneldb.selection import Selection
        from kerneldb.warehouse.absent import absent_texts

        with self.warehouse.connection() as con:
            Selection(where).bind(con)
            return absent_texts(con, sql)

    def sums_only(self, traces: Sequence[str] = ()) -> list[str]:
        """Those of `traces` (all where empty) that hold sums by kernel and no launches: no condition selects any."""
        found = queries.ask(self.warehouse, "sums_only", {"names": list(traces) or None})
        return [row["trace"] for row in found]

    def set_run(self, names: str | Sequence[str], run: str | None) -> None:
        """Put the named traces into the run `run` (None: into none)."""
        self.warehouse.set_run(_several(names), run)

    def rename(self, old: str, new: str) -> None:
        """Give the trace `old` the name `new`. Raises TraceExistsError where that is taken."""
        self.warehouse.rename(old, new)

    def remove(self, names: str | Sequence[str]) -> None:
        """Remove the named traces with all their rows."""
        self.warehouse.remove(_several(names))

    def copy_from(self, source: Database, names: Sequence[str] = ()) -> upkeep.Copied:
        """Copy traces (all, or the named ones) of `source` into this database, with what was learned of them."""
        from kerneldb.api import upkeep

        return upkeep.copy_traces(self._store.made(), source.warehouse, names)

    def refresh(self, *, everything: bool = False) -> dict[str, int]:
        """Decode anew what an older kerneldb decoded (`everything`: all names and signatures); rows per table."""
        return self.warehouse.refresh(everything=everything)

    def schema(self, name: str | None = None) -> Result:
        """Tables, views and macros with their meaning; of one of them, the columns with type, unit and meaning."""
        return Result(queries.schema(self.warehouse, name))

    def schema_about(self, name: str) -> dict[str, str | None]:
        """Kind, meaning, notes and example of a table, view or macro. Raises UsageError for an unknown name."""
        return queries.about(self.warehouse, name)

    def stream(
        self, table: str = "kernels", *, where: str | None = None, traces: Sequence[str] = ()
    ) -> AbstractContextManager[pa.RecordBatchReader]:
        """The rows of a table, view or macro as a stream of record batches, for as long as the context lasts."""
        return queries.stream(self.warehouse, table, where, traces)

    def export(
        self,
        path: str | Path,
        table: str = "kernels",
        *,
        where: str | None = None,
        traces: Sequence[str] = (),
        header: bool = True,
    ) -> int:
        """Write the rows of a table, view or macro to `path`, in the format of its suffix (else parquet); how many."""
        from kerneldb.output import Output, format_of, write

        target = Path(path)
        output = Output(format=format_of(target) or "parquet", path=target, header=header)
        with self.stream(table, where=where, traces=traces) as reader:
            return write(reader, output).shown

    def export_timeline(self, path: Path | None, *, where: str | None = None, traces: Sequence[str] = ()) -> int:
        """Write launches and their host side as a JSON trace (None: to stdout); returns the number of events."""
        from kerneldb.output import opened, perfetto
        from kerneldb.warehouse.execute import streamed

        with queries.selecting(self.warehouse, where, traces) as con, opened(path) as sink:
            return perfetto.write(sink, streamed(con.sql(queries.statement("perfetto_events"))))

    def version(self) -> str:
        """The versions of schema and storage of the file."""
        return self.warehouse.version()


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def __getattr__(name: str) -> Any:
    """What only annotations of users name."""
    if name == "SignaturePage":
        from kerneldb.api.signature import SignaturePage

        return SignaturePage
    raise AttributeError(name)


__all__ = [
    "Database",
    "IngestOptions",
    "KerneldbError",
    "Outcome",
    "ProgressCallback",
    "ReportEntry",
    "Result",
    "SignaturePage",
    "open",
    "outcome_table",
]
