"""Which call and operator launched each GPU activity: those of one correlation meet, wherever they are in a trace.

What a call says goes to where activities of its correlation are, then each activity to its place in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kerneldb.ingest.pytorch import fields
from kerneldb.ingest.pytorch.collect import Collector
from kerneldb.ingest.pytorch.host import Host
from kerneldb.ingest.runs import gathered, stretches
from kerneldb.ingest.threads import mapped

STREAM_TID: Final = r"^(?:.*[^-\d])?(\d+)\s*$"
"""A number, perhaps behind a word; -1 is no stream."""
INTEGERS: Final = (
    *("ts", "dur", "External id", "correlation", "device", "stream", "context", "queued", "bytes", "size"),
    *("registers per thread", "shared memory", "graph id", "graph node id", "toDevice", "inDevice"),
)
OPTIONAL: Final = {
    **dict.fromkeys(INTEGERS, pl.Int64),
    "est. achieved occupancy %": pl.Float64,
    "blocks per SM": pl.Float64,
    "warps per SM": pl.Float64,
    **dict.fromkeys(("collective", "mark"), pl.UInt32),
}
PLACE: Final = ("thread", "device", "inDevice", "toDevice")
ROWS: Final = 1 << 17
"""Activities that are worked on at once."""
MOST_WANTED: Final = 1 << 20
"""So many external ids of activities are remembered: operators of others need not be."""
OF_OP: Final = ("op", "call", "note_of_op", "note", "place", "module", "python")
"""Ids of the operator and of the annotation around it, and codes: of its call, its note, the annotation's path, the
module, and the Python frame."""
SAME_ID: Final = ("correlation", "external", "unknown")
FOUND: Final = ("caller", "alone")
OF_CALL: Final = ("api", "api_code", "api_thread", "api_ts", "api_dur")


class Callers:
    """Takes the host side, stretch by stretch; `launched` then gives each activity what launched it.

    `devices` are the numbers of GPUs as recorded; `copied` says whether external ids are copies of correlations, which
    say nothing; `first` is the smallest correlation of a call.
    """

    def __init__(self, collected: Collector) -> None:
        self._collected = collected
        self._gpu = collected.rows["gpu"]
        self._calls = collected.shelf.runs("correlation")
        self._ops = collected.shelf.runs("External id")
        self._codes = [code for code, row in enumerate(collected.apis.rows()) if row[0] in fields.LAUNCHING_APIS]
        self.notes = collected.shelf.runs("ts")
        self.first: int | None = None
        self._wanted: pl.Series | None = None
        self._places = _places(collected)
        self._processes = [row[0] for row in collected.threads.rows()]
        self.devices, self.copied = self._survey()

    def _survey(self) -> tuple[list[int], bool]:
        """Devices, and whether external ids are copies: torch 2.0-2.3 wrote them so (kineto #843)."""
        devices, known, same, wanted = set[int](), 0, 0, list[pl.Series]()
        for part in self._gpu.each(*PLACE, "External id", "correlation"):
            rows = _complete(part)
            devices.update(_placed(rows, self._places)["device"].drop_nulls().unique())
            both = rows.filter(pl.col("External id").is_not_null() & pl.col("correlation").is_not_null())
            known += both.height
            same += both.filter(pl.col("External id") == pl.col("correlation")).height
            wanted.append(rows["External id"].drop_nulls().unique())
        if 0 < self._gpu.height <= MOST_WANTED:
            self._wanted = pl.concat(wanted).unique()
        return sorted(devices), same * 2 > known

    def add(self, host: Host) -> None:
        """Take what may have launched something."""
        notes = host.ranges.filter(pl.col("cat") == "gpu_user_annotation")
        self.notes.add(notes.select("thread", "ts", "dur", "id", "label"))
        if not self._gpu.height:
            return
        apis = host.apis.filter(pl.col("api").is_in(self._codes))
        apis = _complete(apis, ("correlation", "External id")).filter(pl.col("correlation") > 0)
        firsts = [one for one in (self.first, apis["correlation"].min()) if isinstance(one, int)]
        self.first = min(firsts, default=None)
        names = {"api": "id", "api_code": "api", "api_thread": "thread", "api_ts": "ts", "api_dur": "dur"}
        own = apis.select("correlation", api_external="External id", **names)
        self._calls.add(own.hstack(_around(apis, apis["op"], host)))
        if not self.copied and {"External id"} <= set(host.ops.columns) & set(self._gpu.columns):
            ops = host.ops.slice(host.open_ops).filter(pl.col("External id") > 0)
            if self._wanted is not None:
                ops = ops.filter(pl.col("External id").is_in(self._wanted.implode()))
            self._ops.add(ops.select("External id").hstack(_around(ops, ops["order"], host)))

    def launched(self) -> Iterator[pl.DataFrame]:
        """All activities with device, stream, OF_CALL, OF_OP, and whether the call is in an operator (`contained`)."""
        if not self._gpu.height:
            return
        unnamed = self._collected.shelf.runs("External id")
        open_ones = pl.col("op").is_null() & pl.col("External id").is_not_null() & bool(self._ops.height)
        for gpu in mapped(self._meet, self._meetings()):
            unnamed.add(gpu.filter(open_ones))
            yield gpu.filter(~open_ones)
        self._calls.clear()
        self._gpu.clear()
        if unnamed.height:
            for stretch in stretches([unnamed, self._ops], 2 * ROWS):
                yield _named(unnamed.between(stretch), self._ops.between(stretch))

    def _meetings(self) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Activities and calls whose correlations are between two bounds."""
        for stretch in stretches([self._gpu, self._calls], 2 * ROWS):
            yield self._gpu.between(stretch), self._calls.between(stretch)

    def _meet(self, both: tuple[pl.DataFrame, pl.DataFrame]) -> pl.DataFrame:
        gpu, calls = _placed(_complete(both[0]).sort("id"), self._places), both[1].sort("api")
        gpu = gpu.hstack(gathered(calls.select(*OF_CALL, *OF_OP), _calls(gpu, calls, self._processes)))
        return gpu.with_columns(contained=pl.col("op").is_not_null())


def _around(frame: pl.DataFrame, op: pl.Series, host: Host) -> pl.DataFrame:
    """OF_OP for rows of a stretch with the operator `op`: what is around themselves, or else around that."""
    ops, ranges = host.ops, host.ranges
    around = {name: _first(frame[name], ops[name].gather(op)) for name in ("annotation", "module", "python")}
    notes = ops["note"].gather(op) if "note" in ops.columns else pl.Series([None], dtype=pl.UInt32)
    columns = {
        "op": ops["id"].gather(op),
        "call": ops["call"].gather(op),
        "note_of_op": notes if notes.len() == op.len() else notes.new_from_index(0, op.len()),
        "note": ranges["id"].gather(around["annotation"]).cast(pl.Int64),
        "place": ranges["place"].gather(around["annotation"]),
        "module": ranges["label"].gather(around["module"]),
        "python": ranges["label"].gather(around["python"]),
    }
    return pl.DataFrame([column.alias(name) for name, column in columns.items()])


def _first(one: pl.Series, other: pl.Series) -> pl.Series:
    return pl.select(pl.coalesce(one, other)).to_series()


def _filled(frame: pl.DataFrame, schema: dict[str, type[pl.DataType]]) -> pl.DataFrame:
    return frame.with_columns(
        pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in frame.columns
    )


def _complete(frame: pl.DataFrame, names: tuple[str, ...] = tuple(OPTIONAL)) -> pl.DataFrame:
    return _filled(frame, {name: OPTIONAL[name] for name in names})


def _places(collected: Collector) -> pl.DataFrame:
    """Device and stream by thread: the pid of a GPU row is the device where no argument says so."""
    return collected.threads.table("thread", "pid", "tid").select(
        place_device=pl.col("pid").str.extract(r"^(?:GPU )?(\d+)$").cast(pl.Int64, strict=False),
        place_stream=pl.col("tid").str.extract(STREAM_TID).cast(pl.Int64, strict=False),
    )


def _placed(gpu: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Complete device and stream."""
    gpu = gpu.hstack(gathered(places, gpu["thread"])).with_columns(
        device=pl.coalesce("device", "inDevice", "toDevice", "place_device"),
        stream=pl.coalesce("stream", "place_stream"),
    )
    return gpu.drop("place_device", "place_stream", "inDevice", "toDevice")


def _calls(gpu: pl.DataFrame, launching: pl.DataFrame, processes: list[str | None]) -> pl.Series:
    """The row of the call of the same correlation; of several, that of the same external id, else the latest before.

    None where calls of several processes (merged traces) fit alike: a row of the GPU does not name its process.
    """
    wanted = gpu.select("correlation", "ts", "External id").with_row_index("row")
    numbered = launching.with_row_index("caller")
    if launching["correlation"].is_unique().all():
        narrow = numbered.select("correlation", "caller")
        return wanted.join(narrow, on="correlation", how="left", maintain_order="left")["caller"]
    process = pl.Series("process", processes, dtype=pl.String).gather(launching["api_thread"])
    known = numbered.select("correlation", "caller", ts="api_ts", external="api_external").hstack([process])
    asked = wanted.select("row", "correlation", "ts", external="External id")
    best = pl.concat(_latest(asked, known, by) for by in (SAME_ID, SAME_ID[:1]))
    best = best.unique("row", keep="first", maintain_order=True)
    only = pl.when("alone").then("caller").alias("caller")
    return wanted.join(best.select("row", only), on="row", how="left", maintain_order="left")["caller"]


def _latest(asked: pl.DataFrame, known: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """`caller` of each `row` that has one with the same `by`: the latest of those before it, else the latest of all.

    `alone` says whether all of these are of one process. One row each, however many share a key: a file in which all
    have one correlation would else take memory as the square of their number.
    """
    asked, known = (
        frame.with_columns(pl.col("external").fill_null(0), unknown=pl.col("external").is_null())
        for frame in (asked, known)
    )
    ordered = known.reverse().sort("ts", nulls_last=False, maintain_order=True)  # of equal ones the first of the text
    timed, latest = (_alone(frame, by).select(*by, "ts", *FOUND) for frame in (ordered.drop_nulls("ts"), ordered))
    questions = asked.drop_nulls("ts").sort("ts")
    before = questions.join_asof(timed, on="ts", by=list(by), check_sortedness=False).drop_nulls("caller")
    latest = latest.unique(by, keep="last").drop("ts")
    ever = asked.join(latest, on=by, how="inner", maintain_order="left")
    both = pl.concat([before.select("row", *FOUND), ever.select("row", *FOUND)])
    return both.unique("row", keep="first", maintain_order=True)


def _alone(calls: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """Add to each whether it and those before it with the same `by` are of one process."""
    other = pl.col("process").ne_missing(pl.col("process").first())
    return calls.with_columns(alone=~other.cum_max().over(by))


def _named(gpu: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Activities with the operator of their external id; of several, the first of the text."""
    first = ops.sort("op").unique("External id", keep="first", maintain_order=True)
    joined = gpu.join(first, on="External id", how="left", maintain_order="left", suffix=" of op")
    found = [pl.coalesce(name, f"{name} of op").alias(name) for name in OF_OP]
    return joined.with_columns(found).drop(f"{name} of op" for name in OF_OP)
