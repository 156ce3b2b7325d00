"""Recordings from strangers: a real bundle.json beside a small trace, and what may have become of it."""

from __future__ import annotations

import copy
import functools
import gzip
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conftest import raw_result
from tests.ingest.traces import BASE_NS, Trace, kineto

RESULT = "2026-11-21-h200-energy"
TRACE = "prefill.pt.trace.json.gz"
ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 5, 2**31, 2**63 - 1, 2**70, -(2**63), 0.5, -0.0, 1e308, float("inf"), float("nan"), "",
    "5", "..", "../x", "/etc/passwd", "a/b", "a\\b", "a\x00b", "\ud800", "a\nb", "x" * 300, "bundle.json",
    "power.ndjson", TRACE, "eager", "2026-99-99 25:00:00", [], {}, [5], {"a": 5}, [[], {}], [{"workload": "prefill"}],
)  # fmt: skip
Place = tuple[Any, Any]
"""An object or a list, and a key or an index in it."""


@functools.cache
def power() -> bytes:
    """The readings of a real recording."""
    return raw_result(RESULT, "bloom-560m/power.ndjson")


def recording(root: Path, folder: Path) -> dict[str, Any]:
    """Put a whole recording of one workload into `folder`; returns what its bundle.json holds."""
    made = Trace({"baseTimeNanoseconds": BASE_NS})
    made.launch("aten::mm", "a_kernel", 1000, 7)
    text = kineto(made).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRACE).write_bytes(gzip.compress(text))
    (folder / "prefill.et.json.gz").write_bytes(gzip.compress(b'{"nodes": []}'))
    (folder / "power.ndjson").write_bytes(power())
    content: dict[str, Any] = json.loads((root / "results" / RESULT / "bloom-560m" / "bundle.json").read_text())
    content["parts"][0]["trace"]["sha256"] = hashlib.sha256(text).hexdigest()
    (folder / "bundle.json").write_text(json.dumps(content))
    return content


def damaged(content: dict[str, Any], seed: int) -> bytes:
    """The text of a bundle.json that something happened to, once to three times."""
    dice = random.Random(seed)
    made = copy.deepcopy(content)
    for _ in range(dice.randint(1, 3)):
        dice.choice((_delete, _swap, _replace, _replace, _replace, _wrap, _insert))(made, dice)
    text = json.dumps(made).encode()
    if dice.random() < 0.15:
        text = dice.choice((_cut, _flip, _nest))(text, dice)
    return text


def _places(value: Any) -> Iterator[Place]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in pairs:
        yield value, key
        yield from _places(one)


def _place(made: Any, dice: random.Random) -> Place:
    """Somewhere; as often near the top as in the long lists of measurements."""
    places = [place for place in _places(made) if not (isinstance(place[1], str) and place[1] == "quantity")]
    near = [place for place in places if place[0] is made or "workload" in place[0] or "file" in place[0]]
    return dice.choice(dice.choice((places, near or places)) or [({"": 0}, "")])


def _delete(made: Any, dice: random.Random) -> None:
    inside, key = _place(made, dice)
    del inside[key]


def _swap(made: Any, dice: random.Random) -> None:
    (first, one), (second, other) = _place(made, dice), _place(made, dice)
    first[one], second[other] = copy.deepcopy(second[other]), copy.deepcopy(first[one])


def _replace(made: Any, dice: random.Random) -> None:
    inside, key = _place(made, dice)
    inside[key] = dice.choice(ODD)


def _wrap(made: Any, dice: random.Random) -> None:
    inside, key = _place(made, dice)
    inside[key] = dice.choice(([inside[key]], {"a": inside[key]}, str(inside[key])))


def _insert(made: Any, dice: random.Random) -> None:
    inside, key = _place(made, dice)
    if isinstance(inside, list):
        inside.insert(key, dice.choice(ODD))
    else:
        inside[dice.choice(("new", "rank", "world_size", "reason", "sources", "x\ny"))] = dice.choice(ODD)


def _cut(text: bytes, dice: random.Random) -> bytes:
    return text[: dice.randrange(len(text))]


def _flip(text: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(text))
    return text[:at] + bytes([dice.randrange(256)]) + text[at + 1 :]


def _nest(text: bytes, dice: random.Random) -> bytes:
    depth = dice.choice((100, 900, 100_000))
    return text.replace(b'"parts": ', b'"parts": ' + b"[" * depth, 1)
