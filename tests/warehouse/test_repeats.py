"""Repeats of short traces are found without a statement: as the macros find them, which are the reference."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa
import pytest

from kerneldb.schemas import loader
from kerneldb.warehouse import repeats
from kerneldb.warehouse.repeats import Launch

TRACES = 400
Mark = tuple[int, int | None, bool | None]


def launched(chance: random.Random) -> list[Launch]:
    """Launches of a few devices: warm-up, repeats of a period with slips, and a rest; copies and unnamed kernels."""
    found = []
    for device in chance.sample([None, -1, 0, 1], chance.choice([1, 1, 2, 3])):
        names = [chance.choice("abcd") for _ in range(chance.randint(1, 9))]
        series = [chance.choice("abcdxy") for _ in range(chance.randint(0, 6))] + names * chance.randint(0, 7)
        series += [
            chance.choice("abcdz") for _ in range(chance.choice([0, 0, 3, 20, len(series) // 4, len(series) // 3]))
        ]
        series = [chance.choice("abcdz") if chance.random() < chance.choice([0, 0.05]) else name for name in series]
        now = chance.randint(0, 50)
        for place, name in enumerate(series):
            if place % len(names) == 0:
                times = chance.choice([[0, 1, 7, 7, 40, 400], [20], [28], [29], [30], [31], [32]])
            lasts = chance.choice(times)
            kind = "copy" if chance.random() < 0.1 else "kernel"
            called = None if kind == "copy" or chance.random() < 0.03 else name
            found.append(Launch(device, kind, called, 0, now, now + lasts, lasts, None))
            now += chance.choice([0, lasts, lasts, lasts + 3, lasts + chance.randint(0, 90)])
    chance.shuffle(found)
    numbered = [dataclasses.replace(one, launch_index=index) for index, one in enumerate(found)]
    return sorted(numbered, key=lambda one: (one.start_ns, one.launch_index))


def in_a_row(names: str, lasts: Sequence[int]) -> list[Launch]:
    """Kernels of one device, back to back; those named `?` differ from all others."""
    ends = [*itertools.accumulate(lasts, initial=0)]
    called = [f"{name}{place}" if name == "?" else name for place, name in enumerate(names)]
    rows = zip(called, ends[:-1], ends[1:], lasts, strict=True)
    return [Launch(0, "kernel", name, place, *times, None) for place, (name, *times) in enumerate(rows)]


def at_limits(chance: random.Random) -> Iterator[list[Launch]]:
    """Repeats that cover about four fifths of a trace; and short ones at its end, about a tenth of it or its time."""
    for total in range(90, 112):
        for repeated in range(int(0.78 * total), int(0.82 * total) + 1):
            yield in_a_row("a" * repeated + "?" * (total - repeated), [7] * total)
    for last in range(5, 14):
        for rest in range(34, 40):
            names = "a" * 52 + "?" * rest + "b" * last
            for long in (3, *range(18, 27), chance.randint(8, 80)):
                yield in_a_row(names, [10] * (52 + rest) + [long] * last)
            for total_ns in (0, 1):
                yield in_a_row(names, [0] * (len(names) - 1) + [total_ns])


def by_macro(traces: Sequence[Sequence[Launch]]) -> dict[int, set[Mark]]:
    rows = [{"trace": trace, **dataclasses.asdict(one)} for trace, some in enumerate(traces) for one in some]
    with duckdb.connect() as con:
        con.execute(loader.commit_macros())
        con.register("launched", pa.Table.from_pylist(rows))
        asked = con.execute(
            "WITH timed AS (FROM launched) "
            "SELECT trace, launch_index, iteration, steady_state FROM _period_launches('timed')"
        ).fetchall()
    found: dict[int, set[Mark]] = {trace: set() for trace in range(len(traces))}
    for trace, *marked in asked:
        found[trace].add((marked[0], marked[1], marked[2]))
    return found


def test_repeats_are_those_of_the_macro() -> None:
    chance = random.Random("repeats")
    traces = [*(launched(chance) for _ in range(TRACES)), *at_limits(chance)]
    expected = by_macro(traces)
    found = [repeats.marks(some) for some in traces]
    assert [set(some or ()) for some in found] == [expected[trace] for trace in range(len(traces))]
    kinds = {(iteration is None, steady) for marks in expected.values() for _, iteration, steady in marks}
    assert kinds == {(True, False), (False, True), (False, False), (False, None)}, "some kinds were not tried"
    assert 0 < sum(not marks for marks in expected.values()) < len(traces), "some traces repeat, and some do not"


@pytest.mark.parametrize("change", [{"end_ns": None}, {"duration_ns": None}, {"end_ns": 1 << 60}])
def test_times_that_are_not_exact_are_left_to_the_macro(change: dict[str, int | None]) -> None:
    some = [Launch(0, "kernel", "a", index, 10 * index, 10 * index + 5, 5, None) for index in range(8)]
    assert repeats.marks(some)
    assert repeats.marks([*some[:7], dataclasses.replace(some[7], **change)]) is None  # type: ignore[arg-type]


def test_a_device_with_steps_stays_as_it_is() -> None:
    of_steps = [Launch(0, "kernel", "a", index, 10 * index, 10 * index + 5, 5, 3) for index in range(8)]
    others = [dataclasses.replace(one, device=1, launch_index=8 + one.launch_index, iteration=None) for one in of_steps]
    assert {index for index, _, _ in repeats.marks([*of_steps, *others]) or ()} == set(range(8, 16))
