"""Arguments are cut off as the writer spelled them where that is safe, and come out the same where it is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kerneldb.ingest.pytorch import decode
from kerneldb.ingest.pytorch.split import Splitter
from tests.ingest.traces import LAYOUTS, T0, everything

OP = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": T0 / 1000, "dur": 5}
SHAPES = {"External id": 7, "Input Dims": [[2, 3], []], "Concrete Inputs": ["", "1"]}


def lines(*events: str) -> bytes:
    """Events one a line, as the splitter hands them over; the last one of the text stays in its tail."""
    text = ",\n".join([*events, json.dumps(OP)])
    (ndjson,) = Splitter(iter([f'{{"traceEvents": [{text}]}}'.encode()]))
    return ndjson


def printed(**more: Any) -> str:
    return json.dumps({**OP, **more})


@pytest.mark.parametrize("layout", ["kineto", "kineto_2021", "kineto_2026"])
def test_the_profilers_arguments_are_cut_off(layout: str) -> None:
    trace = everything()
    (ndjson,) = Splitter(iter([LAYOUTS[layout](trace).encode()]))
    frame = decode._apart(ndjson)
    assert frame is not None
    found = [None if text is None else json.loads(text) for text in frame["args"]]
    assert found == [event.get("args") for event in json.loads(LAYOUTS[layout](trace))["traceEvents"][:-1]]


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(json.dumps({"args": SHAPES, **OP}), id="arguments first"),
        pytest.param(json.dumps({"ph": "X", "cat": "cpu_op", "args": SHAPES, **OP}), id="arguments in the middle"),
        pytest.param(printed(args=SHAPES, id=5), id="a key behind the arguments"),
        pytest.param(printed(args=SHAPES).replace('"args": ', '"args":'), id="other blanks"),
        pytest.param(printed(more={"args": {"External id": 8}}, args=SHAPES), id="arguments in another object"),
        pytest.param(printed(args={**SHAPES, "inner": {"a": 1, "args": {"External id": 8}}}), id="arguments inside"),
        pytest.param(printed(args={**SHAPES, "path": "C:\\x", "said": 'a "b", "args": {'}), id="backslashes"),
        pytest.param(printed(args={**SHAPES, "\x02": 1}).replace("\\u0002", "\x02"), id="the mark itself"),
    ],
)
def test_odd_places_of_arguments_cost_no_value(odd: str) -> None:
    plain = printed(args={**SHAPES, "External id": 6})
    chunk = decode.decode(lines(plain, odd, plain))
    rows = chunk.groups["op"].select("name", "External id", "Input Dims", "Concrete Inputs").rows()
    assert [(name, number) for name, number, _, _ in rows] == [("aten::add", 6), ("aten::add", 7), ("aten::add", 6)]
    assert {(dims, scalars) for _, _, dims, scalars in rows} == {("[[2, 3], []]", '["", "1"]')}
    assert chunk.lost == 0


@pytest.mark.parametrize("none", ["", ', "args": null', ', "args": {}'])
def test_events_without_arguments_stand_beside_others(none: str) -> None:
    bare = json.dumps(OP)[:-1] + none + "}"
    chunk = decode.decode(lines(bare, printed(args=SHAPES), bare))
    assert chunk.groups["op"]["External id"].to_list() == [None, 7, None]
    assert (chunk.lost, chunk.repaired) == (0, 0)


@pytest.mark.parametrize("text", ['["\\\\a", 1]', '["a\\"b"]', '["\\u00e9"]'])
def test_backslashes_in_lists_stay_json(text: str) -> None:
    """polars writes the strings of a nested list without escapes: as text of the column that would be no JSON."""
    event = printed(args=SHAPES).replace('["", "1"]', text)
    chunk = decode.decode(lines(event, event))
    assert [json.loads(found) for found in chunk.groups["op"]["Concrete Inputs"]] == [json.loads(text)] * 2


def test_kept_arguments_do_not_depend_on_blanks() -> None:
    """The arguments of a category without columns are stored as text."""
    spans = [
        printed(cat="unheard of", args={"b": [1, 2.50], "a": "x"}),
        printed(cat="unheard of", args={}).replace("{}", '{\r      "b":[1,2.50],"a":"x"\r    }'),
    ]
    first, second = decode.decode(lines(*spans)).groups["other"]["args"]
    assert first == second
    assert json.loads(first) == {"b": [1, 2.5], "a": "x"}
