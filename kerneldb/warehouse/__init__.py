"""The warehouse: one DuckDB file, held while questions come or for one commit, or a lake that many write at once.

>>> warehouse = Warehouse.create_or_open("kernels.duckdb")  # doctest: +SKIP
>>> warehouse.query("FROM top_kernels() LIMIT 10")  # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from kerneldb.errors import TraceExistsError, WarehouseError, WarehouseLockedError, WarehouseVersionError, no_such
from kerneldb.files import remove_stale_spools
from kerneldb.schemas.loader import statement
from kerneldb.warehouse import commit, engine, execute, migrate, reconciliation, replay, runs, strangers, template
from kerneldb.warehouse.engine import store_errors, transaction
from kerneldb.warehouse.place import Place
from kerneldb.warehouse.session import session_of
from kerneldb.warehouse.statements import execute_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from kerneldb.batch import Manifest

T = TypeVar("T")

LOCK_TIMEOUT_S = 30.0


class Warehouse:
    """A database file or a lake. Every method takes a connection of the session of the file for as long as it runs.

    Made by `Warehouse.open` and `Warehouse.create_or_open`, which bring a file to the current schema (lakes are made
    and migrated on demand only, `kerneldb.warehouse.upkeep`); the plain constructor checks nothing. `lock_timeout` is
    how many seconds a reader or writer waits for other holders. `path` is the file; of a lake, see `Place`.
    """

    def __init__(self, path: str | Path | Place, lock_timeout: float = LOCK_TIMEOUT_S) -> None:
        self.place = Place.of(path)
        self.path = self.place.path
        self.lock_timeout = lock_timeout

    @classmethod
    def open(cls, path: str | Path | Place, lock_timeout: float = LOCK_TIMEOUT_S) -> Warehouse:
        """Open an existing file, migrating it where it is older or empty, or a lake.

        Raises WarehouseMissingError, WarehouseLockedError, and WarehouseVersionError for a database that is newer than
        this kerneldb or no warehouse, and for a lake that is older.
        """
        warehouse = cls(path, lock_timeout)
        if warehouse.place.is_lake:
            with warehouse.connection() as con, store_errors(warehouse.place):
                migrate.require_finished(_known_lake(con, warehouse.place), warehouse.place)
        else:
            warehouse._make_sure()
        return warehouse

    @classmethod
    def create_or_open(cls, path: str | Path | Place, lock_timeout: float = LOCK_TIMEOUT_S) -> Warehouse:
        """Open the file as `open` does; make it where it is missing, and finish it where making it was cut short.

        A lake must be there: programs that run at the same time must not make one each.
        """
        warehouse = cls(path, lock_timeout)
        if warehouse.place.is_lake:
            return cls.open(path, lock_timeout)
        remove_stale_spools(warehouse.path)
        if warehouse.path.exists():
            if not warehouse.path.is_file() or not engine.is_cut(warehouse.path):
                warehouse._make_sure()
                return warehouse
        elif template.put(warehouse.path):
            strangers.remember(strangers.look(warehouse.path))
            return warehouse
        warehouse._upgrade(lock_timeout)
        return warehouse

    def _make_sure(self) -> None:
        """Bring the file to this version, and make its views and macros anew where they are not those of kerneldb.

        A file that is known was looked at as it is now. Raises WarehouseVersionError for one that was changed so that
        answers could be wrong.
        """
        seen, content = strangers.look(self.path), None
        is_known = strangers.is_known(seen)
        if not is_known and strangers.is_known(content := strangers.content(self.path.resolve())):
            is_known = True
            strangers.remember(seen)
        with self.connection() as con, store_errors(self.place):
            # What this process was writing is closed for us only now.
            is_known = is_known or strangers.is_known(strangers.look(self.path))
            if is_known:
                state, is_ours = migrate.inspect(con, self.place), True
            else:
                state, is_ours = examined(con, self.place)
        if not (state.is_current and is_ours):
            self._catch_up(state, is_known=is_known)
        elif not is_known:
            strangers.remember(seen, content)

    def _catch_up(self, state: migrate.State, *, is_known: bool) -> None:
        """Upgrade. Views and macros of another version, if known, are worth no waiting, and serve until then."""
        if state.version == migrate.newest() and is_known:
            with contextlib.suppress(WarehouseLockedError):
                self._upgrade(0.0)
            return
        try:
            self._upgrade(self.lock_timeout, anew=not is_known)
        except WarehouseError as error:
            if isinstance(error, WarehouseLockedError | WarehouseVersionError) or state.is_current:
                raise
            kind = f"has the older schema {state.version}" if state.version else "is an empty database"
            message = f"{self.path} {kind}, and cannot be migrated to schema {migrate.newest()}: {error}"
            raise WarehouseError(message) from error
        if not is_known:
            strangers.remember(strangers.look(self.path))

    def _upgrade(self, timeout: float, *, anew: bool = False) -> None:
        with session_of(self.path).writing(timeout, create=True) as con, store_errors(self.place):
            migrate.upgrade(con, self.place, anew=anew)
            if anew:
                examined(con, self.place)

    @contextlib.contextmanager
    def connection(self, *, read_only: bool = True) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection with the database attached as `warehouse` and in use, and no access to other files.

        Bind relations and frames by `con.register(name, object)`; Python variables are out of its reach. Keep it
        short: a reader of a file blocks all writers, and a writer everybody. To write, `write` is the way that also
        works in a lake.
        """
        if self.place.is_lake:
            from kerneldb.warehouse import lakes

            with lakes.reading(self.place) if read_only else lakes.writing(self.place) as con, execute.held(con):
                yield con
        else:
            session = session_of(self.path)
            wait = self.lock_timeout
            with session.reading(wait) if read_only else session.writing(wait) as con, execute.held(con):
                yield con

    def release(self) -> None:
        """Let the file go, for writers other than kerneldb: at once, or half a second after a question under way."""
        if not self.place.is_lake:
            session_of(self.path).release()

    def write(self, work: Callable[[duckdb.DuckDBPyConnection], T], folders: Sequence[Path] = ()) -> T:
        """The result of `work`, run in one transaction that may read files in `folders`.

        In a lake `work` runs again where another commit came first, so it must look anew at what is there.
        """
        with store_errors(self.place):
            if self.place.is_lake:
                from kerneldb.warehouse import lakes

                with lakes.writing(self.place, folders) as con:
                    return lakes.retried(con, self.place, self.lock_timeout, work)
            with session_of(self.path).writing(self.lock_timeout, folders) as con, transaction(con):
                return work(con)

    def query(
        self,
        sql: str,
        params: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        where: str | None = None,
        timeout: float | None = None,
        write: bool = False,
        most_bytes: int | None = None,
    ) -> pa.Table:
        """Run one statement and return all its rows.

        With `where`, a condition over the view `kernels`, the statement may read what meets it as `selection`.
        With `write` it may change the database; then the tables `reconciliation…` follow, in the same transaction.
        Raises QueryError (also for more than `most_bytes`), QueryTimeoutError after `timeout` seconds, SelectionError
        for a bad `where`.
        """
        from kerneldb.selection import Selection

        def ask(con: duckdb.DuckDBPyConnection) -> pa.Table:
            if where is not None:
                Selection(where).bind(con)
            return execute.run(con, sql, params, timeout, None if where is None else "selection", most_bytes)

        def change(con: duckdb.DuckDBPyConnection) -> pa.Table:
            found = ask(con)
            reconciliation.refresh(con)
            return found

        if write and reconciliation.is_concerned(sql):
            return self.write(change)
        with self.connection(read_only=not write) as con:
            return ask(con)

    def answer(self, sql: str, params: Mapping[str, Any] | None = None) -> pa.Table:
        """The rows of a statement of `schemas`, which Ctrl-C ends. As `query`, for what is known to be right."""
        with self.connection() as con:
            return execute.answer(con, sql, params)

    def commit(
        self, manifest: Manifest, *, replace: bool = False, tags: Mapping[str, str] | None = None
    ) -> commit.Added:
        """Add a converted trace; nothing is written where it was there already and `replace` is not set."""
        if self.place.is_lake:
            from kerneldb.warehouse import transfer

            return transfer.commit_to_lake(self.place, self.lock_timeout, manifest, replace=replace, tags=tags or {})
        folders = [manifest.folder.parent]

        def add(con: duckdb.DuckDBPyConnection) -> commit.Added:
            added = commit.commit(con, manifest, replace=replace, tags=tags or {})
            if added.written:
                reconciliation.refresh(con, added.concerned)
            return added

        return self.write(add, folders)

    def batch(self) -> contextlib.AbstractContextManager[None]:
        """A context in which commits of conversions of one folder share an engine; others get the file in between."""
        return contextlib.nullcontext() if self.place.is_lake else session_of(self.path).batch()

    def store_replay(
        self,
        run_id: str,
        items: Sequence[str],
        rows: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        new: bool = True,
        balance: bool = True,
    ) -> None:
        """Write rows of the replay tables, replacing those of the same run and items.

        Without `new`, readings are added to those of the run. Without `balance`, the tables `reconciliation…` are left
        to the call for the last of several runs.
        """
        self.write(lambda con: replay.store(con, run_id, items, rows, new=new, balance=balance))

    def store_improvements(self, traces: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows of `improvements`, replacing those of the same traces."""
        self.write(lambda con: replay.store_improvements(con, traces, rows))

    def traces(self) -> pa.Table:
        """One row per trace: the view `trace_overview`."""
        return self.answer(statement("traces", "all"))

    def trace_name(self, trace_id: str) -> str | None:
        """The name of a trace, or None where there is no such trace."""
        names = self.answer(statement("traces", "name_of"), {"trace_id": trace_id})["name"].to_pylist()
        return names[0] if names else None

    def remove(self, names: str | Iterable[str]) -> None:
        """Remove the named traces with all their rows; annotations of signatures stay. Raises UsageError."""
        wanted = _listed(names)
        self.write(lambda con: commit.remove(con, _ids(con, wanted)))

    def tag(self, names: str | Iterable[str], tags: Mapping[str, str | None]) -> None:
        """Set tags of the named traces; the value None takes a tag off. Raises UsageError.

        Their runs leave the history, whose series go by tags, until it is updated.
        """
        wanted = _listed(names)

        def change(con: duckdb.DuckDBPyConnection) -> None:
            ids = _ids(con, wanted)
            commit.set_tags(con, ids, tags)
            for trace_id in ids:
                execute_all(con, statement("history", "forget_run"), {"trace_id": trace_id})

        self.write(change)

    def set_run(self, names: str | Iterable[str], run: str | None) -> None:
        """State the run of the named traces (None: what the traces prove decides again). Raises UsageError."""
        wanted = _listed(names)

        def change(con: duckdb.DuckDBPyConnection) -> None:
            ids = _ids(con, wanted)
            for trace_id in ids:
                con.execute(statement("traces", "state_run"), {"trace_id": trace_id, "run": run})
            reconciliation.refresh(con, runs.judge(con, ids).union(ids))

        self.write(change)

    def rename(self, old: str, new: str) -> None:
        """Give the trace `old` the name `new`. Raises UsageError, and TraceExistsError where that name is taken."""

        def change(con: duckdb.DuckDBPyConnection) -> None:
            (trace_id,) = _ids(con, [old])
            if new != old and new in _names(con):
                message = f"there is a trace {new!r} already"
                raise TraceExistsError(message)
            con.execute(statement("traces", "rename"), {"trace_id": trace_id, "name": new})
            reconciliation.refresh(con, runs.judge(con) | {trace_id})

        self.write(change)

    def refresh(
        self, progress: Callable[[str, int], None] | None = None, *, everything: bool = False
    ) -> dict[str, int]:
        """Derive anew what an older kerneldb derived (`everything`: all of it); rows per table.

        `progress` is called with a table and how many of its rows are about to be derived. Views and macros of a file
        are renewed too.
        """
        from kerneldb.warehouse import refresh

        if not self.place.is_lake:
            self._upgrade(self.lock_timeout)
        return self.write(lambda con: refresh.refresh(con, progress, everything=everything))

    def version(self) -> str:
        """The versions of the schema and of the storage format of the database."""
        with self.connection() as con, store_errors(self.place):
            state = migrate.inspect(con, self.place)
            if self.place.is_lake:
                return f"schema {state.version}, DuckLake with {self.place.catalog}"
            (storage,) = con.execute(statement("version", "storage")).fetchone() or ("?",)
        return f"schema {state.version}, DuckDB storage {storage}"


def examined(con: duckdb.DuckDBPyConnection, place: Place) -> tuple[migrate.State, bool]:
    """The state of a database that may be of a stranger, and whether it is of this version with our views and macros.

    Raises WarehouseVersionError where its tables are not ours, or something in it changes the meaning of statements.
    """
    found = strangers.require_usable(con, place)
    state = migrate.inspect(con, place)
    if not state.is_current:  # tables that are made of others differ from version to version
        return state, False
    ours = template.ours()
    strangers.require_columns(found, place, ours)
    return state, strangers.is_genuine(con, ours, found, of_lake=place.is_lake)


def _known_lake(con: duckdb.DuckDBPyConnection, lake: Place) -> migrate.State:
    """The state of a lake whose definitions were looked at as they are now.

    Views and macros that say that they are of this version have to be; those of another version serve as they are.
    Raises WarehouseVersionError.
    """
    seen = strangers.look_at_lake(con)
    if strangers.is_known(seen):
        return migrate.inspect(con, lake)
    state, is_ours = examined(con, lake)
    if state.is_current and not is_ours:
        raise strangers.not_genuine(lake)
    strangers.remember(seen)
    return state


def _listed(names: str | Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _names(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    return dict(con.execute(statement("remove", "ids")).fetchall())


def _ids(con: duckdb.DuckDBPyConnection, names: Sequence[str]) -> list[str]:
    known = _names(con)
    for name in names:
        if name not in known:
            raise no_such("trace", name, known)
    return [known[name] for name in names]
