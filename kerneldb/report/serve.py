"""Reports of a database as a web application on this machine: read only, and only for who has the token.

Whoever asks without the token, from another host name or for anything but what is listed in `application` gets no
answer. SQL runs as in `Database.sql`: it can change nothing and reach no file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.resources
import io
import json
import queue
import re
import secrets
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from kerneldb.api.result import Result
from kerneldb.errors import KerneldbError, UsageError
from kerneldb.files import stamp_of
from kerneldb.output import records
from kerneldb.output.text import harmless
from kerneldb.output.values import python_values
from kerneldb.report import changes, gather, html, live
from kerneldb.report.asking import named

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import duckdb
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from kerneldb.api import Database
    from kerneldb.api.completion import Words
    from kerneldb.api.queries import Connection
    from kerneldb.files import Stamp

NEEDED: Final = ("starlette", "uvicorn")
HOST: Final = "127.0.0.1"
COOKIE: Final = "kerneldb-{port}"
"""With the port: a browser sends cookies of a host to all of its ports, and several servers may run."""
OTHERS: Final = frozenset({"cross-site", "same-site"})
"""What a browser says of a request that a page of another host or port makes."""
ROWS: Final = 10_000
"""Rows of an answer; the page says where there are more."""
LIVE: Final = {
    "gaps": live.gaps, "causes": live.causes, "find": live.find, "sums": live.sums, "launched": live.launched,
    "facts": live.facts,
}  # fmt: skip
MOST_EXACT: Final = 2**53
PATIENCE_S: Final = 60.0
READING: Final = frozenset({"SELECT", "MULTI"})
"""Kinds of statements by DuckDB's parser; PIVOT is several."""
EXPLAINED: Final = re.compile(r"\s*EXPLAIN\b\s*(?:ANALYZE\b|\([^)]*\))?(.*)", re.IGNORECASE | re.DOTALL)
LONGEST: Final = 10_000
"""Characters of a value of an answer; the CSV has all."""
MOST_BYTES: Final = 1 << 28
"""Of the answer to a statement, as Arrow; as texts it takes several times as much."""
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
"""Vega compiles its expressions ('unsafe-eval'); nothing can be loaded from or sent to another place."""


def application(database: Database, token: str) -> Starlette:
    """The pages `/`, `/trace`, `/timeline` and `/compare`, and for programs and pages what is below `/api`."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.routing import Route

    pages = {
        "/": _index, "/trace": _trace, "/timeline": _timeline, "/compare": _compare, "/api/schema": _schema,
        "/api/timeline": _window, **{f"/api/timeline/{name}": _live(answer) for name, answer in LIVE.items()},
    }  # fmt: skip
    routes = [Route(path, _guarded(page, database, token)) for path, page in pages.items()]
    posted = {"/api/query": _query, "/api/complete": _complete}
    routes += [Route(path, _guarded(page, database, token), methods=["POST"]) for path, page in posted.items()]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"], www_redirect=False)
    return Starlette(routes=routes, middleware=[hosts])


def listening(port: int) -> socket.socket:
    """A socket on loopback; port 0 takes a free one. Raises KerneldbError where the port is taken."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
    except OSError as error:
        found.close()
        raise KerneldbError(f"port {port}: {error.strerror}; choose another one with --port, or none") from error
    return found


def run(database: Database, sock: socket.socket, token: str) -> None:
    """Answer until the process is interrupted."""
    import uvicorn

    app = application(database, token)
    config = uvicorn.Config(app, log_level="error", access_log=False, server_header=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[sock])


def address(sock: socket.socket, token: str) -> str:
    """What to open in a browser."""
    return f"http://{HOST}:{sock.getsockname()[1]}/?token={token}"


def _guarded(page: Callable[[Database, Any], Response], database: Database, token: str) -> Callable[[Request], Any]:
    """`page` for those who know the token: from the address at first, which then is without it, else from a cookie."""

    async def answer(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import HTMLResponse, PlainTextResponse

        given, cookie = request.query_params.get("token"), COOKIE.format(port=request.scope["server"][1])
        known = secrets.compare_digest((given or request.cookies.get(cookie, "")).encode(), token.encode())
        if not known or _is_foreign(request):
            return PlainTextResponse("open the address that kerneldb serve has printed\n", 403, HEADERS)
        if given is not None and request.method == "GET":
            response: Response = HTMLResponse(_onward(request), headers=HEADERS)
            response.set_cookie(cookie, token, httponly=True, samesite="strict")
            return response
        try:
            asked = _read(await request.body()) if request.method == "POST" else request.query_params
            response = await run_in_threadpool(page, database, asked)
        except KerneldbError as error:
            response = PlainTextResponse(harmless(str(error)), 400)
        response.headers.update(HEADERS)
        return response

    return answer


def _is_foreign(request: Request) -> bool:
    """Whether a page of another origin asks, and not a person who follows its link."""
    said = request.headers
    by = said.get("sec-fetch-site") in OTHERS and said.get("sec-fetch-mode") != "navigate"
    return by or said.get("origin") not in {None, f"http://{said['host']}"}


def _onward(request: Request) -> str:
    """A page that goes to the same address without the token.

    A redirect would not do: after a link in another page (a terminal in a browser) it goes without the new cookie.
    """
    import markupsafe

    bare = request.url.remove_query_params("token")
    path = f"{bare.path}?{bare.query}" if bare.query else bare.path
    return f'<!doctype html><meta http-equiv="refresh" content="0;url={markupsafe.escape(path)}">'


def _read(body: bytes) -> Any:
    """What the body of a request says. Raises UsageError where it is no JSON, too deep, or has halves of characters."""
    try:
        found = json.loads(body)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}") from error
    return found


def _index(database: Database, _: Any) -> Response:
    """All traces, a form to compare two, and the box for SQL."""
    traces = database.traces().rows()
    return _page("serve.html.j2", database=database.path.name, traces=traces)


def _trace(database: Database, asked: Any) -> Response:
    """The report of what each `name` means, and of all traces of each `run`, which may be called like one of them."""
    from starlette.responses import StreamingResponse

    runs = asked.getlist("run")
    of_runs = [row["trace"] for row in database.traces().rows() if row["run"] in runs] if runs else []
    names = [*asked.getlist("name"), *of_runs]
    if not names:
        raise UsageError("no trace and no run of such a name")
    sections = gather.arriving(database, names, live=True)
    alone = [row["trace"] for name in names for row in named(database, name)]
    pieces = html.arriving(gather.title([*asked.getlist("name"), *runs]), gather.made(database), sections, alone)
    return StreamingResponse(_worked_off(pieces), media_type="text/html")


def _worked_off(pieces: Generator[str]) -> Iterator[str]:
    """`pieces` as they come from one thread, to which a connection belongs, however slowly they are taken.

    Nothing further is asked for once nobody takes them any more.
    """
    import markupsafe

    come: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    left = threading.Event()

    def work() -> None:
        try:
            with contextlib.closing(pieces):
                for piece in pieces:
                    come.put(piece)
                    if left.is_set():
                        break
        except KerneldbError as error:
            come.put(f'<p role="alert">{markupsafe.escape(harmless(str(error)))}</p>')
            come.put('<script>document.getElementById("coming")?.remove();</script>')
        finally:
            come.put(None)

    threading.Thread(target=work, daemon=True).start()
    try:
        while (piece := come.get()) is not None:
            yield piece
    finally:
        left.set()


def _timeline(database: Database, asked: Any) -> Response:
    """The timeline alone: of a large trace it is there long before the answers of a report are."""
    from starlette.responses import HTMLResponse

    return HTMLResponse(html.page(gather.timeline(database, asked.get("name", ""))))


def _window(database: Database, asked: Any) -> Response:
    from starlette.responses import Response

    with live.question(database, asked) as question:
        return Response(live.window(question), media_type="application/octet-stream")


def _live(answer: Callable[[live.Question], Any]) -> Callable[[Database, Any], Response]:
    """An answer to a page about a trace, as JSON."""

    def page(database: Database, asked: Any) -> Response:
        from starlette.responses import Response

        with live.question(database, asked) as question:
            return Response(records.encode(answer(question)), media_type="application/json")

    return page


def _compare(database: Database, asked: Any) -> Response:
    from starlette.responses import HTMLResponse

    before, after = (asked.get(side, "") for side in ("before", "after"))
    return HTMLResponse(html.page(changes.comparison(database, before, after, 0.03)))


def _schema(database: Database, _: Any) -> Response:
    """Tables, views and macros with their columns and comments; who reads them anew also has new words completed."""
    from starlette.responses import JSONResponse

    _words.cache_clear()
    wanted = ("object", "kind", "column_name", "type", "meaning")
    return JSONResponse([[row[name] for name in wanted] for row in _documented(database)])


def _documented(database: Database) -> list[dict[str, Any]]:
    from kerneldb.api.queries import statement

    return database.sql(statement("serve_schema")).rows()


def _complete(database: Database, asked: Any) -> Response:
    """What can stand between the texts `before` and `after` the cursor, as in the SQL screen of the TUI.

    JSON with `begun`, the part of `before` that a word replaces, and the words as `found`.
    """
    from starlette.responses import JSONResponse

    before, after = (asked.get(side) if isinstance(asked, dict) else None for side in ("before", "after"))
    if not isinstance(before, str) or not isinstance(after, str):
        raise KerneldbError("before and after have to be texts")
    offers = _words(database, stamp_of(database.path)).at(before, after)
    return JSONResponse({"begun": offers.begun, "found": [dataclasses.asdict(one) for one in offers.found]})


@functools.lru_cache(maxsize=1)
def _words(database: Database, _: Stamp) -> Words:
    """What completion offers as long as the file stays as it is. Nothing is selected here: macros read all launches."""
    from kerneldb.api import completion

    with database.warehouse.connection() as con:
        found = completion.words(con).all
    kept = (one for one in found if one.word != "selection")
    return completion.Words([dataclasses.replace(one, word=one.word.replace("('selection')", "()")) for one in kept])


def _query(database: Database, asked: Any) -> Response:
    """The rows of one statement: JSON with `columns`, `rows` (at most `ROWS` of `n`) and `seconds`, or CSV of all.

    Where these say nothing, `hints` are what texts may mean that the statement compares columns with; else that it
    sums what does not add up.
    Integers of over 53 bits are texts, which JavaScript would round; long values are cut, and say so.
    """
    from starlette.responses import Response

    from kerneldb.api import adding_up
    from kerneldb.warehouse.absent import says_nothing

    sql = asked.get("sql") if isinstance(asked, dict) else None
    if not isinstance(sql, str) or not sql.strip():
        raise KerneldbError("the SQL is empty")
    _require_reading(database, sql)
    begun = time.monotonic()
    result = Result(database.warehouse.query(sql, timeout=PATIENCE_S, most_bytes=MOST_BYTES))
    if asked.get("format") == "csv":
        sink = io.BytesIO()
        records.write(sink, result.to_reader(), "csv", safe_cells=True)
        return Response(sink.getvalue(), media_type="text/csv")
    table, is_nothing = result.head(ROWS).to_arrow(), says_nothing(result.to_arrow())
    values = [list(map(_exact, python_values(column))) for column in table.columns]
    answer = {
        "columns": [{"name": harmless(field.name), "type": str(field.type)} for field in table.schema],
        "rows": list(zip(*values, strict=True)),
        "n": len(result),
        "hints": database.absent_texts(sql) if is_nothing else adding_up.warnings(database.warehouse, sql),
        "seconds": round(time.monotonic() - begun, 3),
    }
    return Response(records.encode(answer), media_type="application/json")


def _require_reading(database: Database, sql: str) -> None:
    """Raise UsageError for what only attaches, sets or makes something: beside the file, in memory, it would work."""
    import duckdb

    with database.warehouse.connection() as con:
        try:
            found = con.extract_statements(sql)
        except duckdb.Error:
            return  # it is said when it runs
        kinds = {kind for one in found for kind in _kinds(con, one)}
    if not kinds <= READING:
        raise UsageError("only statements that read are run: SELECT, FROM, WITH, DESCRIBE, SUMMARIZE, SHOW, EXPLAIN")


def _kinds(con: Connection, statement: duckdb.Statement) -> Iterator[str]:
    """The kind of a statement; of EXPLAIN of what it is given, which ANALYZE runs, or its own where none is found."""
    import duckdb

    explained = EXPLAINED.match(statement.query) if statement.type.name == "EXPLAIN" else None
    try:
        inner = con.extract_statements(explained[1]) if explained else []
    except duckdb.Error:
        inner = []
    yield from [one.type.name for one in inner] or [statement.type.name]


def _whole(value: Any) -> Any:
    """Integers that JavaScript would round as texts, also in lists and structures."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) > MOST_EXACT else value
    if isinstance(value, list | tuple):
        return [_whole(one) for one in value]
    return {key: _whole(one) for key, one in value.items()} if isinstance(value, dict) else value


def _exact(value: Any) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    value = _whole(value)
    if isinstance(value, int):
        return value
    text = value if isinstance(value, str) else records.encode(value).decode()
    if len(text) > LONGEST:
        return f"{harmless(text[:LONGEST])}… (the first {LONGEST:,} of {len(text):,} characters)"
    return harmless(value) if isinstance(value, str) else value


def _page(name: str, **given: Any) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse(_template(name).render(**given))


@functools.cache
def _template(name: str) -> Any:
    import jinja2

    text = importlib.resources.files("kerneldb.report").joinpath(name).read_text(encoding="utf-8")
    return jinja2.Environment(autoescape=True, finalize=html.printable).from_string(text)
