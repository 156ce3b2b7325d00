"""Arguments come out the same, however they are spelled and wherever they are in the event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.ingest.reading import collected, frame_of, operators
from tests.ingest.traces import T0

OP = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": T0 / 1000, "dur": 5}
SHAPES = {"External id": 7, "Input Dims": [[2, 3], []], "Concrete Inputs": ["", "1"]}


def text_of(*events: str) -> bytes:
    """A trace of these events, and one more that the splitter leaves in its tail."""
    return f'{{"traceEvents": [{",".join([*events, json.dumps(OP)])}]}}'.encode()


def printed(**more: Any) -> str:
    return json.dumps({**OP, **more})


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
    found = collected(text_of(plain, odd, plain))
    rows = operators(found).select("name", "External id", "Input Dims", "Concrete Inputs").rows()[:-1]
    assert [(name, number) for name, number, _, _ in rows] == [("aten::add", 6), ("aten::add", 7), ("aten::add", 6)]
    assert {(dims, scalars) for _, _, dims, scalars in rows} == {("[[2, 3], []]", '["", "1"]')}
    assert found.lost == 0


@pytest.mark.parametrize("none", ["", ', "args": null', ', "args": {}'])
def test_events_without_arguments_stand_beside_others(none: str) -> None:
    bare = json.dumps(OP)[:-1] + none + "}"
    found = collected(text_of(bare, printed(args=SHAPES), bare))
    assert operators(found)["External id"].to_list() == [None, 7, None, None]
    assert (found.lost, found.repaired) == (0, 0)


@pytest.mark.parametrize("text", ['["\\\\a", 1]', '["a\\"b"]', '["\\u00e9"]'])
def test_backslashes_in_lists_stay_json(text: str) -> None:
    event = printed(args=SHAPES).replace('["", "1"]', text)
    scalars = operators(collected(text_of(event, event)))["Concrete Inputs"].to_list()
    assert [json.loads(found) for found in scalars[:-1]] == [json.loads(text)] * 2


def test_kept_arguments_do_not_depend_on_blanks() -> None:
    """The arguments of a category without columns are stored as text."""
    spans = [
        printed(cat="unheard of", args={"b": [1, 2.50], "a": "x"}),
        printed(cat="unheard of", args={}).replace("{}", '{\r      "b":[1,2.50],"a":"x"\r    }'),
    ]
    other = frame_of(collected(text_of(*spans)), "other")
    assert other is not None
    first, second = other["args"]
    assert first == second
    assert json.loads(first) == {"b": [1, 2.5], "a": "x"}
