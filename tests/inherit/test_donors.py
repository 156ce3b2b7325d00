"""Which launch gives its call, on sequences made for the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from kerneldb.api import donors

Launch = tuple[str, str | None, int]


def launches(trace: str, told: Sequence[Launch], arch: str | None = "sm_90", *, shape: bool = True) -> pl.DataFrame:
    """A stream of (kernel, call or None, duration); launches without a call are asked for."""
    rows: list[dict[str, Any]] = [
        {
            "trace_id": trace,
            "process": "1",
            "device": 0,
            "stream": 7,
            "launch_index": index,
            "kind": "kernel",
            "start_ns": 1000 * index,
            "duration_ns": duration,
            "arch": arch,
            "name_id": f"{trace} {name}" if not shape else name,
            "shape": 1 if shape else None,
            "shared_bytes": 0,
            "bytes": None,
            "copy_kind": None,
            "launch_key": f"key of {name}" if shape else None,
            "match_name": name,
            "has_shape": shape,
            "variant": call,
            "op_id": None if call is None else index,
            "ordinal": None if call is None else 0,
            "wanted": call is None,
            "related": True,
        }
        for index, (name, call, duration) in enumerate(told)
    ]
    return pl.DataFrame(rows, schema_overrides={"launch_key": pl.String, "shape": pl.Int64, "variant": pl.String})


def found(*frames: pl.DataFrame) -> list[tuple[int, str, str, str]]:
    """Per launch that found a donor: its index, the call, the rung, and what decided."""
    whole = pl.concat(frames, how="vertical_relaxed").with_columns(
        bytes=pl.col("bytes").cast(pl.Int64), copy_kind=pl.col("copy_kind").cast(pl.String)
    )
    numbered = whole.with_row_index("row")
    matched = donors.match(whole)
    assert matched["row"].n_unique() == matched.height
    given = numbered.select(donor="row", call="variant")
    joined = matched.join(numbered.select("row", "launch_index"), on="row").join(given, on="donor").sort("launch_index")
    return joined.select("launch_index", "call", "level", "decided").rows()


def test_the_only_call_of_a_kernel_is_taken() -> None:
    recorded = launches("a", [("gelu", "gelu", 5), ("mm", "query", 90)])
    asked = launches("b", [("mm", None, 91), ("softmax", None, 10)])
    assert found(recorded, asked) == [(0, "query", "launch", "one call")]


def test_neighbours_tell_which_call_of_several() -> None:
    layer = [("norm", "norm", 5), ("mm", "query", 90), ("rope", "rope", 3), ("mm", "out", 90), ("add", "add", 4)]
    asked = [(name, None, duration) for name, _, duration in layer]
    calls = [call for _, call, *_ in found(launches("a", layer * 3), launches("b", asked * 2))]
    assert calls == ["norm", "query", "rope", "out", "add"] * 2


def test_place_decides_where_neighbours_repeat() -> None:
    """A cache that grows by one each step: the same kernels around, other sizes."""
    steps = [[("norm", "norm", 5), ("score", f"cache {step}", 20), ("add", "add", 4)] for step in range(8)]
    recorded = [launch for step in steps for launch in step]
    asked = [(name, None, duration) for name, _, duration in recorded]
    rows = found(launches("a", recorded), launches("b", asked))
    assert [call for _, call, *_ in rows] == [call for _, call, _ in recorded]
    assert {decided for _, call, _, decided in rows if "cache" in call} <= {"order", "neighbours"}


def test_launches_hidden_in_their_own_trace_take_the_nearest_call() -> None:
    step = [("norm", "norm", 5), ("score", "", 20), ("score", "", 20), ("score", "", 20), ("add", "add", 4)]
    told = [(name, call or f"cache {number}", ns) for number in range(12) for name, call, ns in step]
    hidden = [launch if index % 5 != 2 else (launch[0], None, launch[2]) for index, launch in enumerate(told)]
    assert [call for _, call, *_ in found(launches("a", hidden))] == [f"cache {number}" for number in range(12)]


def test_duration_decides_last() -> None:
    recorded = launches("a", [("mm", "small", 10), ("x", "x", 1), ("mm", "large", 400), ("y", "y", 1)] * 2)
    asked = launches("b", [("u", None, 1), ("mm", None, 390), ("v", None, 1)])
    assert found(recorded, asked) == [(1, "large", "launch", "duration")]


def test_another_architecture_serves_where_its_own_has_none() -> None:
    recorded = launches("a", [("mm", "theirs", 10)], "sm_80")
    own = launches("b", [("mm", "ours", 10)], "sm_90")
    asked = launches("c", [("mm", None, 10)], "sm_90")
    assert found(recorded, own, asked) == [(0, "ours", "launch", "one call")]
    assert found(recorded, asked) == [(0, "theirs", "launch key, other GPU", "one call")]


def test_related_traces_are_asked_first() -> None:
    stranger = launches("a", [("u", "u", 1), ("mm", "theirs", 10)]).with_columns(related=pl.lit(value=False))
    model = launches("b", [("v", "v", 1), ("mm", "ours", 300)])
    asked = launches("c", [("u", None, 1), ("mm", None, 10)])
    assert [call for _, call, *_ in found(stranger, model, asked)] == ["u", "ours"]


def test_names_serve_where_no_launch_shape_is_known() -> None:
    recorded = launches("a", [("mm", "query", 10), ("gelu", "gelu", 3)])
    asked = launches("b", [("mm", None, 10)], shape=False)
    assert found(recorded, asked) == [(0, "query", "name", "one call")]


def test_kernels_of_one_call_have_one_donor() -> None:
    """Split-K and its reduction: the second kernel follows the first, not its own duration."""
    pairs = [("mm", f"call {n}", 100 * n, "reduce", f"call {n} reduce", 50 - n) for n in (1, 2)]
    told = [[(mm, call, ns), (red, second, less)] for mm, call, ns, red, second, less in pairs]
    recorded = launches("a", [*told[0], ("x", "x", 1), *told[1], ("y", "y", 1)] * 2)
    recorded = recorded.with_columns(
        op_id=pl.when(pl.col("match_name") == "reduce").then(pl.col("launch_index") - 1).otherwise("launch_index"),
        ordinal=(pl.col("match_name") == "reduce").cast(pl.Int64),
    )
    asked = launches("b", [("u", None, 1), ("mm", None, 101), ("reduce", None, 48), ("v", None, 1)])
    assert [call for _, call, *_ in found(recorded, asked)] == ["call 1", "call 1 reduce"]


def test_nothing_to_match_is_no_error() -> None:
    assert donors.match(
        launches("a", [("mm", "query", 10)]).cast({"bytes": pl.Int64, "copy_kind": pl.String})
    ).is_empty()


@pytest.mark.parametrize(
    ("pairs", "rising"),
    [
        ([], []),
        ([(1, 5), (2, 3), (3, 4), (4, 9)], [(2, 3), (3, 4), (4, 9)]),
        ([(0, 0), (1, 1), (1, 1), (2, 0)], [(0, 0), (1, 1)]),
        ([(3, 1), (2, 2), (1, 3)], [(3, 1)]),
    ],
)
def test_the_longest_rising_part(pairs: list[tuple[int, int]], rising: list[tuple[int, int]]) -> None:
    assert donors._rising(pairs) == rising
