"""What a CSV file holds, by its header. Names are compared without case, `_` and `-`: eras differ in nothing else.

Sources: rocprofiler-sdk, source/lib/output/generateCSV.cpp and source/lib/python/rocpd/csv.py; rocprofiler (v2),
plugin/file; ROCm docs, using-rocprofv3.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from typing import Final, Literal

import polars as pl
from polars.exceptions import PolarsError

from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest.amd.capture import prefix_of
from kerneldb.ingest.delimited import NO_END, fields, is_whole
from kerneldb.ingest.ledger import UNKNOWN, Ledger
from kerneldb.ingest.output import Report
from kerneldb.ingest.source import Source
from kerneldb.times import SATURATED

Kind = Literal["kernels", "counters", "calls", "copies", "memory", "scratch", "agents", "stats", "pc_samples"]

ALIASES: Final[dict[str, str]] = {
    "name": "kernelname",
    "start": "starttimestamp beginns",
    "end": "endtimestamp endns",
    "agent": "agentid gpuid",
    "queue": "queueid",
    "stream": "streamid",
    "thread": "threadid tid",
    "process": "processid pid",
    "dispatch": "dispatchid index",
    "correlation": "correlationid",
    "lds_block": "ldsblocksize",
    "lds_total": "groupsegmentsize lds ldsperworkgroup",
    "scratch": "scratchsize privatesegmentsize scr scratchperworkitem",
    "vgpr": "vgprcount archvgpr archvgprcount vgpr",
    "agpr": "accumvgprcount accumvgpr",
    "sgpr": "sgprcount sgpr",
    **{f"{side}_{axis}": f"{side}size{axis}" for side in ("workgroup", "grid") for axis in "xyz"},
    "workgroup": "workgroupsize wgr",
    "grid": "gridsize grd",
    "counter": "countername",
    "value": "countervalue",
    **{name: name for name in ("guid", "domain", "function", "kind", "direction", "operation", "address", "calls")},
    "source_agent": "sourceagentid",
    "target_agent": "destinationagentid",
    "size": "allocationsize size",
    "flags": "allocflags",
    "stat_name": "name",
    "total_ns": "totaldurationns",
    "min_ns": "minns",
    "max_ns": "maxns",
    "deviation_ns": "stddev",
    "mean_ns": "averagens",
    "sampled": "sampletimestamp",
    "node": "nodeid",
    "graph": "graphexecid",
    "graph_node": "graphnodeid",
}
"""Our name of a column → as printed over the years, without case and separators."""
CANONICAL: Final = {alias: name for name, aliases in ALIASES.items() for alias in aliases.split()}
NOT_COUNTERS: Final = frozenset(
    (
        *("kernelid", "queueindex", "sig", "signal", "obj", "dispatchns", "completens", "durationns", "duration"),
        *("wavesize", "percentage", "xccid", "roctxrange", "averagens", "nodeid", "agentindex", "waveid", "isocl"),
        *("wavefrontsize", "accumvgprs", "kernelnameraw", "objectid", "workgroupid", "fbar"),
    )
)
UNREAD: Final = Ledger(
    "column",
    CANONICAL,
    dict.fromkeys(sorted(NOT_COUNTERS), "repeats or follows from other columns, or means nothing outside of the run"),
    outcome="unread",
)
"""Of rows that are stored."""
KINDS: Final[tuple[tuple[Kind, frozenset[str]], ...]] = (
    ("counters", frozenset({"name", "counter", "value"})),
    ("kernels", frozenset({"name", "start", "end"})),
    ("kernels", frozenset({"name", "dispatch", "agent", "queue", "grid", "workgroup", "sgpr"})),
    ("calls", frozenset({"domain", "function", "start", "end"})),
    ("copies", frozenset({"direction", "start", "end"})),
    ("memory", frozenset({"operation", "size", "start", "end"})),
    ("scratch", frozenset({"operation", "flags", "start", "end"})),
    ("pc_samples", frozenset({"sampled"})),
    ("stats", frozenset({"stat_name", "calls", "total_ns"})),
)
"""Which columns make which kind, the most special first. rocprof prints times only with `--timestamp on`."""
JOINED: Final = re.compile(r"(?: \(\d+\)|\.\d+|_(?:\d+|[xy]|pmc_perf\w*|timestamps|SQ_\w+))$")
"""What joins of tables add to the names of columns that several have."""
AGENTS: Final = frozenset({"nodeid", "logicalnodeid", "cpucorescount"})
OLD: Final = re.compile("BeginNs|Dispatch_ID|Wave_Size|LDS_Per_Workgroup|queue-index")
"""Columns of rocprof, rocprofv2 and rocprof-compute, which rocprofv3 writes in other letters or not at all."""
ENDINGS: Final = (".gz", ".csv")
SUMS: Final = re.compile(r"\.((?:\w+_)?stats)$")
"""rocprof's sums: `results.stats.csv` of kernels, `results.hip_stats.csv` of calls."""
SURPLUS: Final = " surplus"
SLICE_BYTES: Final = 1 << 24
INTEGERS: Final = frozenset(
    {"start", "end", "queue", "stream", "dispatch", "correlation", "lds_block", "lds_total", "scratch", "vgpr"}
    | {"agpr", "sgpr", "workgroup", "grid", "size", "graph", "graph_node", "calls", "total_ns", "min_ns", "max_ns"}
    | {f"{side}_{axis}" for side in ("workgroup", "grid") for axis in "xyz"}
)
TIMES: Final = frozenset({"start", "end", "total_ns", "min_ns", "max_ns"})
MOMENTS: Final = frozenset({"start", "end"})
FLOATS: Final = frozenset({"deviation_ns", "mean_ns"})


def columns_of(header: str) -> list[str]:
    """Names of the columns: ours where it is a known one, else as printed."""
    names: dict[str, None] = {}
    for at, printed in enumerate(fields(header)):
        name = CANONICAL.get(_plain(printed), printed.strip())
        names[name if name not in names else f"{printed.strip()} ({at})"] = None
    return list(names)


def _is_identifier(name: str) -> bool:
    """Whether a column repeats what is not counted; rocprof-compute joins passes, and adds their names or numbers."""
    return _base(name) in NOT_COUNTERS or _base(name) in CANONICAL


def _base(name: str) -> str:
    """A column as the tool names it, without what joins add, in small letters without separators."""
    return _plain(JOINED.sub("", name))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def kind_of(head: bytes) -> Kind | None:
    """What the file holds, from its first bytes; None for files of others."""
    line = head.partition(b"\n")[0].strip()
    if b"," not in line or b"\x00" in line or line.startswith((b"{", b"[")):
        return None
    try:
        columns = columns_of(line.decode("utf-8"))
    except UnicodeDecodeError:
        return None
    if {_plain(name) for name in columns} >= AGENTS - {"nodeid"} and "node" in columns:
        return "agents"
    present = set(columns)
    return next((kind for kind, needed in KINDS if needed <= present), None)


class Table:
    """One CSV file. `report` counts its rows; the check sum of `source` is complete after `rows` ran to its end."""

    def __init__(self, source: Source, head: bytes) -> None:
        kind = kind_of(head)
        if kind is None:
            message = f"{source.label}: not a CSV file of rocprof."
            raise ValueError(message)
        self.source = source
        self.kind: Kind = kind
        self.report = Report()
        self.read = 0
        header = head.partition(b"\n")[0].decode("utf-8").strip("\r\n\ufeff")
        self._printed = fields(header)
        self.columns: list[str] = columns_of(header)
        self.is_old = kind == "kernels" and OLD.search(header) is not None

    @property
    def stem(self) -> str:
        """The file's name without what all files of the capture share: `kernel_trace`; of rocprof, `stats`."""
        name = self.source.path.name
        for ending in ENDINGS:
            name = name.removesuffix(ending)
        of_rocprof = SUMS.search(name)
        return of_rocprof.group(1) if of_rocprof else name.removeprefix(prefix_of(self.source.path)).strip("_")

    @property
    def wide_counters(self) -> list[str]:
        """Columns of counters in the wide files of rocprof, rocprofv2 and rocprof-compute: what is nothing else.

        A column of rocprofv3 that is not known here is not a counter.
        """
        if not self.is_old:
            return []
        return [name for name in self.columns if name not in ALIASES and not _is_identifier(name)]

    @property
    def from_rocpd(self) -> bool:
        """Whether `rocpd convert` wrote the file: it puts the GUID first."""
        return "guid" in self.columns

    def rows(self) -> Iterator[pl.DataFrame]:
        """Slices with known columns as numbers where they are numbers, and all others as text."""
        with contextlib.closing(self.source.blocks()) as blocks:
            first = True
            for text, last in _cut(blocks):
                body = text.partition(b"\n")[2] if first else text
                first = False
                frame = self._parsed(self._whole(body) if last else body)
                self.read += frame.height
                if frame.height:
                    yield self._numbers(frame)
        if self.source.damage:
            self.report.add("truncated", self.source.damage, 1)
        self.report.add("read", "rows", self.read)
        if self.kind not in ("agents", "pc_samples"):  # kept as properties; skipped as rows
            taken = {*ALIASES, *self.wide_counters}
            bases = {
                _base(name): text for name, text in zip(self.columns, self._printed, strict=False) if name not in taken
            }
            found = {text if UNREAD.reason(base) == UNKNOWN else base: self.read for base, text in bases.items()}
            UNREAD.account(found, self.report)

    def _numbers(self, text: pl.DataFrame) -> pl.DataFrame:
        """Numbers in the columns that hold them; cells that hold none are counted."""
        floats = pl.col([name for name in text.columns if name in FLOATS]).cast(pl.Float64, strict=False)
        frame = text.with_columns(*[_integer(name) for name in text.columns if name in INTEGERS], floats)
        for name in [name for name in text.columns if name in INTEGERS | FLOATS]:
            odd = text[name].filter(frame[name].is_null() & text[name].is_not_null())
            if odd.len():
                self.report.add(
                    "unread", f"cell of column {name} that is no such number: left empty", odd.len(), odd[0]
                )
        return frame

    def _parsed(self, body: bytes) -> pl.DataFrame:
        """Rows as text, without those that are none; a column behind the last one takes what a row has too much.

        A first row of the right width keeps polars from taking the width of another one.
        """
        schema = dict.fromkeys((*self.columns, SURPLUS), pl.String)
        first = b"," * len(self.columns) + b"\n"
        body = body.replace(b"\r", b"")  # a carriage return within a row would hide its number
        try:
            frame = pl.read_csv(
                io.BytesIO(first + body), has_header=False, schema=schema, truncate_ragged_lines=True,
                encoding="utf8-lossy",
            )  # fmt: skip
        except PolarsError as error:
            message = (
                f"{self.source.label}: behind row {self.read:,} a row cannot be read (perhaps a quote that is not "
            )
            raise UnreadableTraceError(f"{message}closed). Copy the file again, or record it again.") from error
        is_blank = pl.col(self.columns[0]).fill_null("").str.strip_chars() == ""
        frame = frame.filter(~pl.all_horizontal(is_blank, pl.all().exclude(self.columns[0]).is_null()))
        return self._sound(frame).drop(SURPLUS)

    def _sound(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Without rows whose cells are not those of their columns, which are counted."""
        needed = next((names for kind, names in KINDS if kind == self.kind and names <= {*self.columns}), self.columns)
        printed = zip(self.columns, self._printed, strict=False)
        refused = {
            "row with more fields than the header has": pl.col(SURPLUS).is_not_null(),
            "row without what rows of its kind have": pl.all_horizontal(pl.col(name).is_null() for name in needed),
            "header line between the rows": pl.all_horizontal(pl.col(name) == text for name, text in printed),
        }
        for reason, is_so in refused.items():
            kept = frame.filter(~is_so.fill_null(value=False))
            self.report.add("lost", reason, frame.height - kept.height)
            self.read += frame.height - kept.height
            frame = kept
        return frame

    def _whole(self, body: bytes) -> bytes:
        """Without a last row that breaks off."""
        if not body or body.endswith((b"\n", b"\r")):
            return body
        before, newline, line = body.rpartition(b"\n")
        if body.count(b'"') % 2 == 0 and is_whole(line.decode("utf-8", errors="replace"), len(self.columns)):
            self.report.add("note", NO_END, 1)
            return body
        self.report.add("truncated", "the text ends within a row", 1)
        return before + newline


def _cut(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Texts of whole rows, and whether it is the last one. A line break inside quotes does not end a row."""
    rest = b""
    for block in blocks:
        rest += block
        if len(rest) < SLICE_BYTES:
            continue
        end = _row_end(rest)
        if end:
            yield rest[:end], False
            rest = rest[end:]
    yield rest, True


def _row_end(text: bytes) -> int:
    """Offset behind the last line break outside quotes."""
    quotes, at = text.count(b'"'), len(text)
    while (newline := text.rfind(b"\n", 0, at)) >= 0:
        quotes -= text.count(b'"', newline, at)
        if quotes % 2 == 0:
            return newline + 1
        at = newline
    return 0


def _integer(name: str) -> pl.Expr:
    """Whole numbers; rocprof-compute prints some as floats (`8.0`).

    A moment with an exponent (`8.1097E+14`) went through a spreadsheet, which left a few digits of it.
    """
    text = pl.col(name)
    real = text.cast(pl.Float64, strict=False)
    if name in MOMENTS:
        real = pl.when(~text.str.contains("[eE]")).then(real)
    if name in TIMES:
        real = real.clip(-SATURATED, SATURATED)
    return pl.coalesce(text.cast(pl.Int64, strict=False), real.cast(pl.Int64, strict=False)).alias(name)
