"""What an export says of NVTX: ranges and marks with their names, and which of them PyTorch pushed for its operators.

Under `torch.autograd.profiler.emit_nvtx` PyTorch pushes a range for each of its functions, in the default domain, with
a text that is new each time (`getNvtxStr` in torch/csrc/profiler/util.cpp, called by
torch/csrc/profiler/standalone/nvtx_observer.cpp): the name, then what is known of `, seq = N` (the number by which
autograd links forward and backward), `, op_id = N` (that of the call; older versions write none), `, sizes = [[2, 3],
[]]` (with `record_shapes=True`: dimensions of each input, none of what is no tensor; the tensors of a list stand for
it one by one) and `, input_op_ids = [(7,0)]` (who made each input). Annotations of a program (`record_function`) and of
FSDP get such a text, too, but never a sequence number: so what has one is an operator, and else the name tells.

Such texts are taken apart before names are told apart, so that names stay few.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import polars as pl

from kerneldb import repeated, times
from kerneldb.ingest.distinct import coded_rows
from kerneldb.ingest.nsys.store import Schema, Store
from kerneldb.ingest.pytorch.identity import call_id

EVENT: Final[Schema] = {
    **dict.fromkeys(("start", "end", "eventType", "textId", "globalTid", "endGlobalTid", "domainId"), pl.Int64),
    "text": pl.String,
}
PUSH_POP, START_END, MARK, DOMAIN = "nvtx_push_pop", "nvtx_start_end", "nvtx_mark", "domain"
KINDS: Final[Mapping[int, str]] = {
    34: MARK,
    59: PUSH_POP,
    60: START_END,
    65: MARK,
    70: PUSH_POP,
    71: START_END,
    75: DOMAIN,
}
"""`eventType` → kind, from ENUM_NSYS_EVENT_TYPE."""
KIND: Final = pl.Enum([*dict.fromkeys(KINDS.values())])
THREAD: Final = 1 << 24
STEP_PREFIX: Final = "ProfilerStep"
SUFFIX: Final = r", (?:seq|op_id|sizes|input_op_ids) = "
EMITTED: Final = (
    r"(?s)^(?P<text>.+?)(?:, seq = (?P<seq>\d{1,18}))?(?:, op_id = (?P<number>\d{1,18}))?"
    r"(?P<inputs>, (?:sizes|input_op_ids) = \[.*)?$"
)
SIZES: Final = r"^, sizes = (\[(?:\[[\d, ]*\](?:, )?)*\])(?:, input_op_ids|$)"
INPUTS: Final = ", input_op_ids = "
OPERATOR: Final = r"^(?:(?:\w+::)+\w+$|autograd::engine::evaluate_function: )"
ANNOTATIONS: Final = "FSDP::"
"""What FSDP calls its annotations (`record_function` in torch/distributed/fsdp)."""
BARE: Final = ("detach", "detach_", "record_param_comms")
"""Operators that PyTorch records without a namespace."""
KEYS: Final = ("textId", "text", "process", "domainId", "marked", "sizes")
"""What tells names apart. `marked` says what followed the name: `NUMBERED`, `SEQUENCED`, both, or something else."""
NUMBERED, SEQUENCED, SIZED, MADE = 1, 2, 4, 8
_KEYED: Final = (pl.Int64, pl.String, pl.Int64, pl.Int64, pl.Int64, pl.String)
CALL: Final = ("op", "input_dims", "input_strides", "input_dtypes", "scalars", "extra")
CALLS: Final = pl.Schema(dict.fromkeys(("call_id", *CALL), pl.String))
NUMBERS: Final[Schema] = {"seq": pl.Int64, "number": pl.Int64}
_READ: Final = pl.Schema(
    {"globalTid": pl.Int64(), "start": pl.Int64(), "end": pl.Int64(), "kind": KIND, "name": pl.UInt32()}
)


class Marks(NamedTuple):
    """Ranges and marks by thread and start, outer ones first: globalTid, start, end, kind, name (a code of `names`).

    `operators` are the ranges of operators, also with seq and number, as far as these are known; `ranges` the others.
    `last` is the end of the last of all; `tracked` says how many have the operators that made their inputs.
    """

    names: Names
    ranges: pl.DataFrame
    operators: pl.DataFrame
    last: int | None
    tracked: int


def read(store: Store, strings: pl.DataFrame) -> Marks:
    """All of an export, of which `strings` is the table of texts (id, value)."""
    names = Names(strings)
    events, tracked = names.read(store)
    _, last = times.span(events, "start", times.between("start", "end"))
    if not names.calls.height:
        return Marks(names, events, events.clear(), last, tracked)
    is_operator = (events["kind"] == PUSH_POP) & names.call.gather(events["name"]).is_not_null()
    return Marks(names, events.filter(~is_operator), events.filter(is_operator), last, tracked)


class Names:
    """Names of ranges, each once: `texts` by code (`coded`: as rows have them), and what a path takes of each.

    `calls` are the rows of `op_calls` of operators, `call` says which of them a name is, NULL for those of none.
    """

    def __init__(self, strings: pl.DataFrame) -> None:
        self._strings = strings.select(textId="id", registered="value")
        self._sorted: pl.DataFrame | None = None
        self.texts = self.coded = pl.Series(dtype=pl.String)
        self.of_path = self.call = pl.Series(dtype=pl.UInt32)
        self.facts: list[tuple[str, str | None, str | None]] = []
        self.calls = CALLS.to_frame()

    def read(self, store: Store) -> tuple[pl.DataFrame, int]:
        """Ranges and marks by thread and start, and how many name the operators that made their inputs."""
        keyed = pl.DataFrame(schema=dict(zip(KEYS, _KEYED, strict=True)))
        parts, domains, names, known_names, tracked = [_READ.to_frame()], [keyed], [keyed], 0, 0
        for part in store.frames("NVTX_EVENTS", EVENT):
            kind = pl.col("eventType").replace_strict(KINDS, default=None, return_dtype=KIND)
            nothing = {"marked": pl.lit(None, pl.Int64), "sizes": pl.lit(None, pl.String)}
            known = part.with_columns(kind=kind, process=pl.col("globalTid") // THREAD, **nothing)
            domains.append(known.filter(pl.col("kind") == DOMAIN).select(KEYS))
            events = known.filter(pl.col("kind") != DOMAIN, pl.col("start").is_not_null())
            events, coded, distinct = self._told_apart(events)
            if "seq" in events.columns:
                tracked += int(((distinct["marked"].fill_null(0) & MADE) > 0).gather(coded).sum())
            parts.append(events.with_columns(name=coded + known_names).select(*_READ, *_numbers_of(events)))
            names.append(distinct)
            known_names += distinct.height
        of_parts, distinct = coded_rows(pl.concat(names))
        self._tell(distinct, pl.concat(domains))
        events = pl.concat(parts, how="diagonal")
        parts.clear()
        return in_order(events.with_columns(name=of_parts.gather(events["name"]))), tracked

    def _told_apart(self, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series, pl.DataFrame]:
        """`events` (with their numbers, where PyTorch wrote such), the name of each as a code, and the names."""
        coded, distinct = coded_rows(events.select(KEYS))
        taken = self._taken_apart(distinct)
        if taken is None:
            return events, coded, distinct
        events = events.hstack(taken.select(pl.col(*NUMBERS).gather(coded)))
        again, fewer = coded_rows(taken.select(KEYS))
        return events, again.gather(coded), fewer

    def _taken_apart(self, distinct: pl.DataFrame) -> pl.DataFrame | None:
        """The keys with the parts of their texts, and `NUMBERS`; None where PyTorch wrote none of the texts."""
        whole = distinct.select(pl.coalesce("text", pl.lit(self._registered(distinct["textId"])))).to_series()
        emitted = whole.str.contains(SUFFIX).fill_null(value=False) & (distinct["domainId"].fill_null(0) == 0)
        if not emitted.any():
            return None
        parts = whole.set(~emitted, None).str.extract_groups(EMITTED).struct.unnest()
        inputs = pl.col("inputs")
        bits = {
            NUMBERED: pl.col("number").is_not_null(),
            SEQUENCED: pl.col("seq").is_not_null(),
            SIZED: inputs.is_not_null(),
            MADE: inputs.str.contains(INPUTS, literal=True).fill_null(value=False),
        }
        marked = pl.sum_horizontal(pl.when(of).then(bit).otherwise(0) for bit, of in bits.items()).cast(pl.Int64)
        found = parts.select(
            "text",
            marked=pl.when(marked > 0).then(marked),
            sizes=inputs.str.extract(SIZES),
            **{name: pl.col(name).cast(kind, strict=False) for name, kind in NUMBERS.items()},
        )
        is_marked = found["marked"].is_not_null()
        text = found["text"].zip_with(is_marked, distinct["text"])
        return distinct.select("process", "domainId", textId=distinct["textId"].set(is_marked, None)).hstack(
            [text, *found.drop("text").get_columns()]
        )

    def _registered(self, ids: pl.Series) -> pl.Series:
        """The registered text of each id."""
        if not ids.len() - ids.null_count() or self._strings.is_empty():
            return pl.repeat(None, ids.len(), dtype=pl.String, eager=True)
        if self._sorted is None:
            self._sorted = self._strings.sort("textId")
        known = self._sorted["textId"]
        place = known.search_sorted(ids.fill_null(-1)).clip(0, known.len() - 1)
        return self._sorted["registered"].gather(place).zip_with(known.gather(place) == ids, _NO_TEXT)

    def _tell(self, keys: pl.DataFrame, domains: pl.DataFrame) -> None:
        """Make the texts, now that the names of all domains are known."""
        text = pl.coalesce("text", "registered")
        registered = domains.join(self._strings, on="textId", how="left", maintain_order="left")
        of_domain = registered.select("process", "domainId", domain=text).unique(
            ["process", "domainId"], maintain_order=True
        )
        named = keys.join(self._strings, on="textId", how="left", maintain_order="left")
        named = named.join(of_domain, on=["process", "domainId"], how="left", maintain_order="left")
        parts = pl.concat_str("domain", text.fill_null(""), separator=":", ignore_nulls=True)
        self.texts = named.select(parts).to_series().alias("name")
        self.coded = repeated.coded(self.texts.to_frame())["name"]
        facts: dict[tuple[str, str | None, str | None], int] = {}
        codes = []
        for name, default in zip(self.texts, keys["domainId"].fill_null(0) == 0, strict=True):
            label = None if name.startswith(STEP_PREFIX) else name
            fact = (name, label if default else None, None if default else label)
            codes.append(facts.setdefault(fact, len(facts)))
        self.of_path = pl.Series("fact", codes, dtype=pl.UInt32)
        self.facts = list(facts)
        self._call(named.select(*KEYS[2:], op=text))

    def _call(self, keys: pl.DataFrame) -> None:
        """Find the names of operators, and the calls that they are."""
        is_operator = _are_operators(keys)
        self.call = pl.repeat(None, keys.height, dtype=pl.UInt32, eager=True)
        if not is_operator.any():
            return
        places = is_operator.arg_true()
        coded, distinct = coded_rows(keys.select("op", "sizes").gather(places))
        self.call = self.call.scatter(places, coded)
        self.calls = pl.DataFrame([_call_row(*row) for row in distinct.iter_rows()], schema=CALLS)


_NO_TEXT: Final = pl.Series([None], dtype=pl.String)


def in_order(events: pl.DataFrame) -> pl.DataFrame:
    """Events by thread and start, outer ones first: to see that they are takes less than to sort them."""
    thread, start, end = pl.col("globalTid"), pl.col("start"), pl.col("end")
    known = events["globalTid"].is_sorted()
    of_threads = events.rechunk() if known else events.sort("globalTid", maintain_order=True)
    inside = end.shift().is_null() | (end <= end.shift())
    behind = ((start > start.shift()) | ((start == start.shift()) & inside)).fill_null(value=False)
    if of_threads.select((behind | thread.ne_missing(thread.shift())).slice(1).all()).item():
        return of_threads
    down = [False, False, True]
    return events.sort("globalTid", "start", "end", descending=down, nulls_last=False, maintain_order=True)


def _numbers_of(events: pl.DataFrame) -> tuple[str, ...]:
    return tuple(name for name in NUMBERS if name in events.columns)


def _are_operators(keys: pl.DataFrame) -> pl.Series:
    """Whether each name is one of an operator.

    Versions of PyTorch that numbered no calls wrote nothing behind the names of some: in a process of which calls have
    sequence numbers, but no others, such a name alone is an operator.
    """
    marked, op = pl.col("marked").fill_null(0), pl.col("op")
    of_process = keys.group_by("process").agg(
        numbered=((marked & NUMBERED) > 0).any(), sequenced=((marked & SEQUENCED) > 0).any()
    )
    old = of_process.filter(pl.col("sequenced") & ~pl.col("numbered"))["process"]
    named = op.str.contains(OPERATOR) & ~op.str.starts_with(ANNOTATIONS)
    told = (marked & SEQUENCED).gt(0) | (marked.gt(0) & (named | op.is_in(BARE)))
    alone = marked.eq(0) & named & pl.col("process").is_in(old.implode())
    default = pl.col("domainId").fill_null(0) == 0
    return keys.select((default & (told | alone)).fill_null(value=False)).to_series()


def _call_row(op: str, sizes: str | None) -> dict[str, str | None]:
    """A row of `op_calls`. Nothing but the dimensions of the inputs is in the text."""
    row: dict[str, str | None] = {**dict.fromkeys(CALL), "op": op, "input_dims": None if sizes == "[]" else sizes}
    return {"call_id": call_id(row), **row}
