"""What is looked at: conditions, command lines, history."""

from __future__ import annotations

import shlex

import duckdb
import pytest

from kerneldb.tui.model import Choice, History, both, command_line, equals, quoted


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "'a'"), ("it's", "'it''s'"), (None, "NULL"), (3, "3"), (True, "true"), (1.5, "1.5")],
)
def test_values_are_written_as_sql(value: object, text: str) -> None:
    assert quoted(value) == text


def test_a_condition_on_an_unknown_value_asks_for_null() -> None:
    assert equals("op", None) == "op IS NULL"
    assert equals("op", "aten::mm") == "op = 'aten::mm'"


@pytest.mark.parametrize(
    "first",
    [
        *("x = 1", "x = 1 OR x = 2", "x BETWEEN 1 AND 2", "x = 2 -- two", "x = 1\nOR x = 3", " "),
        *("(x = 1)OR(x = 2)", "x = 1\tor\tx = 2", "x = 1or x = 2", "'a'='b'OR x = 3", "x = 1 /* ' */OR x = 2 /* ' */"),
        *("E'\\''= 'b'OR x = 3 AND E'' = ''", "$$'$$ = 'b'OR x = 3 OR $$'$$ = 'c'"),
    ],
)
@pytest.mark.parametrize("second", ["x > 1", "x < 2 or x > 2", "x = 1 -- one", ""])
def test_both_conditions_hold(first: str, second: str) -> None:
    with duckdb.connect() as con:
        values = con.table_function("range", [5]).project("range::INTEGER AS x")

        def meeting(text: str) -> set[int]:
            return {x for (x,) in (values.filter(text) if text.strip() else values).fetchall()}

        assert meeting(both(first, second)) == meeting(first) & meeting(second)


def test_a_choice_becomes_options_of_the_command_line() -> None:
    choice = Choice("name = 'it''s'", ("a b", "c"))
    line = command_line("my file.duckdb", ["top", "--by", "op"], choice)
    assert shlex.split(line) == [
        *("kerneldb", "--db", "my file.duckdb", "top", "--by", "op"),
        *("--where", "name = 'it''s'", "--trace", "a b", "--trace", "c"),
    ]


def test_an_empty_condition_selects_everything() -> None:
    assert Choice(" ").selection().where is None
    assert Choice(" ").everything
    assert Choice("x = 1").narrowed("y = 2").where == "x = 1 AND y = 2"
    assert Choice("category = 'a or b'").narrowed("y = 2").where == "category = 'a or b' AND y = 2"


def test_history_goes_back_and_forth_and_forgets_what_lay_ahead() -> None:
    history = History(Choice())
    for where in ("a", "b", "b", "c"):
        history.add(Choice(where))
    assert history.step(-1).where == "b"
    assert history.step(-9).where == ""
    assert history.step(1).where == "a"
    history.add(Choice("d"))
    assert history.step(1).where == "d"
    assert history.texts() == ["d", "a"]
