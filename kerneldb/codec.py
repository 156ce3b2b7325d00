"""JSON to dataclasses and back: the one decoder of what processes, machines and users hand each other.

The annotations of a dataclass say what is accepted: dataclasses, `X | None`, `tuple[X, ...]`, `tuple[X, Y]`,
`Sequence[X]`, `Mapping[str, X]`, `Literal[…]`, enums of texts, `str`, `int`, `float`, `bool`, `Any`, and numbers with
bounds, `Annotated[int, Between(0, 9)]`. Fields with a default may be left out, and are left out where they hold it;
unknown fields are ignored, so that an older reader reads what a newer writer added. A value of another type is a
`CodecError` that names its place: `kernels[2].grid: expected a list, found "1x1"`.

Text is held to what JSON and the database can keep: no NaN or Infinity, integers of 64 bits, no half surrogates, and
nothing that nests deeper than any writer of ours does. Standard library only: replay workers run where little else is
installed.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

T = TypeVar("T")
Decoder = Callable[[Any], Any]

SHOWN: Final = 40
SMALLEST: Final = -(1 << 63)
LARGEST: Final = (1 << 63) - 1
DEEPEST: Final = 64
OLDER: Final = "older"
"""Metadata of a field: its name in files that were written before it had its own."""
PLAIN: Final = (str, int, float, bool)
NAMES: Final = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


@dataclasses.dataclass(frozen=True, slots=True)
class Between:
    """The least and the most that a number of an `Annotated` type may be."""

    least: float
    most: float


Int32 = Annotated[int, Between(-(1 << 31), (1 << 31) - 1)]
"""What a column INTEGER holds."""
Count = Annotated[int, Between(1, (1 << 31) - 1)]


class CodecError(ValueError):
    """Text that is not JSON, or a value of another type than its place takes; `place` is a path: `calls[0].op`."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.place = place

    def inside(self, step: str | int) -> CodecError:
        """The same error, seen from the value around it: `step` is a field's name or an index."""
        before = f"[{step}]" if isinstance(step, int) else printable(step)
        dot = "." if self.place and not self.place.startswith("[") else ""
        return CodecError(self.message, f"{before}{dot}{self.place}")


def parse(text: str, *, own: bool = False) -> Any:
    """The value of a JSON text. Raises CodecError. What is our `own` may name files whose names are no UTF-8."""
    try:
        value = json.loads(text, parse_constant=_no_number, parse_int=_integer, parse_float=_finite)
        if "\\u" in text and not own:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        message = "nested too deeply"
        raise CodecError(message) from error
    except UnicodeEncodeError as error:
        message = "a text with half a surrogate pair"
        raise CodecError(message) from error
    except json.JSONDecodeError as error:
        message = f"not JSON ({error.msg}, character {error.pos})"
        raise CodecError(message) from error
    if text.count("[") + text.count("{") > DEEPEST and _deeper(value, DEEPEST):
        message = "nested too deeply"
        raise CodecError(message)
    return value


def printable(text: str, most: int = SHOWN) -> str:
    """The beginning of a text that comes from a file, fit for a message: with escapes for what moves a cursor."""
    escaped = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text[:most])
    return escaped if len(text) <= most else f"{escaped}…"


def dump(value: Any) -> str:
    """`encode` as one line of JSON."""
    return json.dumps(encode(value))


def load(kind: type[T], text: str, *, own: bool = False) -> T:
    """`decode` of a JSON text. Raises CodecError."""
    return decode(kind, parse(text, own=own))


def encode(value: Any) -> Any:
    """JSON-ready values: dataclasses as objects without the fields that hold their default."""
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        pairs = ((name, default, getattr(value, name)) for name, default in _defaults(kind))
        return {name: encode(held) for name, default, held in pairs if held != default}
    if isinstance(value, Mapping):
        return {key: encode(held) for key, held in value.items()}
    if isinstance(value, tuple | list):
        return [encode(entry) for entry in value]
    return value


def decode(kind: type[T], data: Any) -> T:
    """`data`, parsed JSON, as a value of `kind`. Raises CodecError with the place of what does not fit."""
    decoder: Decoder = _decoder(kind)  # type: ignore[arg-type]
    value: T = decoder(data)
    return value


class Tagged:
    """Dataclasses told apart by a text in the field `tag`: the lines of a journal, the messages over a pipe."""

    def __init__(self, tag: str, **kinds: type[Any]) -> None:
        self._tag = tag
        self._kinds = kinds
        self._names = {kind: name for name, kind in kinds.items()}

    def dump(self, value: Any) -> str:
        """The value with its tag, as one line of JSON."""
        return json.dumps({self._tag: self._names[type(value)], **encode(value)})

    def load(self, text: str) -> Any:
        """The value that a line holds. Raises CodecError, also for an unknown tag."""
        data = parse(text)
        name = data.get(self._tag) if isinstance(data, dict) else None
        kind = self._kinds.get(name) if isinstance(name, str) else None
        if kind is None:
            message = f"expected {self._tag!r} to be one of {', '.join(self._kinds)}"
            raise CodecError(message)
        return decode(kind, data)


def once(name: str, default: Any) -> Any:
    """A field of a dataclass that older files call `name`."""
    return dataclasses.field(default=default, metadata={OLDER: name})


@functools.cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Names and defaults of the fields; MISSING, which equals no value, for those without one."""
    return tuple(
        (one.name, one.default_factory() if one.default_factory is not dataclasses.MISSING else one.default)
        for one in dataclasses.fields(kind)
    )


@functools.cache
def _decoder(kind: Any) -> Decoder:
    """The function that decodes values of `kind`."""
    origin = typing.get_origin(kind)
    if origin is not None:
        return _of_generic(origin, typing.get_args(kind))
    if kind is Any:
        return _anything
    if issubclass(kind, enum.Enum):
        return functools.partial(_member, kind)
    made: Decoder = _object(kind) if kind not in PLAIN else functools.partial(_plain, kind)
    return made


def _of_generic(origin: Any, inner: tuple[Any, ...]) -> Decoder:
    if origin is Annotated:
        return functools.partial(_bounded, _decoder(inner[0]), inner[1])
    if origin is Literal:
        return functools.partial(_one_of, inner)
    if origin in (typing.Union, types.UnionType):
        return _optional(inner)
    if origin is Mapping:
        return _mapped(_decoder(inner[1]))
    if origin is tuple and inner[-1] is not Ellipsis:
        return _fixed([_decoder(one) for one in inner])
    return _listed(_decoder(inner[0]))


def _plain(kind: type[Any], value: Any) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise _unfit({int: "a whole number", float: "a number", **NAMES}[kind], value)
    return value


def _bounded(decoder: Decoder, limits: Between, value: Any) -> Any:
    found = decoder(value)
    if not limits.least <= found <= limits.most:
        expected = f"a number from {limits.least} to {limits.most}"
        raise _unfit(expected, value)
    return found


def _anything(value: Any) -> Any:
    return value


def _one_of(values: tuple[Any, ...], value: Any) -> Any:
    if value not in values:
        raise _unfit(" or ".join(map(json.dumps, values)), value)
    return value


def _member(kind: type[enum.Enum], value: Any) -> Any:
    return kind(_one_of(tuple(one.value for one in kind), value))


def _optional(inner: Iterable[Any]) -> Decoder:
    decoder, *more = (_decoder(one) for one in inner if one is not type(None))
    assert not more  # noqa: S101 (a type of ours: one alternative beside None)
    return lambda value: None if value is None else decoder(value)


def _listed(decoder: Decoder) -> Decoder:
    def decode_listed(value: Any) -> Any:
        return tuple(_each(enumerate(_list(value)), decoder))

    return decode_listed


def _fixed(decoders: Sequence[Decoder]) -> Decoder:
    def decode_fixed(value: Any) -> Any:
        if len(_list(value)) != len(decoders):
            expected = f"{len(decoders)} values"
            raise _unfit(expected, value)
        return tuple(_each(enumerate(zip(decoders, value, strict=True)), _paired))

    return decode_fixed


def _mapped(decoder: Decoder) -> Decoder:
    def decode_mapped(value: Any) -> Any:
        return dict(zip(_dict(value), _each(value.items(), decoder), strict=True))

    return decode_mapped


def _object(kind: Any) -> Decoder:
    hints = typing.get_type_hints(kind, include_extras=True)
    decoders = [(one.name, _decoder(hints[one.name])) for one in dataclasses.fields(kind)]
    older = {one.metadata[OLDER]: one.name for one in dataclasses.fields(kind) if OLDER in one.metadata}
    needed = [name for name, default in _defaults(kind) if default is dataclasses.MISSING]

    def decode_object(value: Any) -> Any:
        given = {older.get(name, name): one for name, one in _dict(value).items()} if older else _dict(value)
        for name in needed:
            if name not in given:
                message = f"no {name!r}"
                raise CodecError(message)
        known = [(name, (decoder, given[name])) for name, decoder in decoders if name in given]
        values = _each(known, _paired)
        try:
            return kind(**{name: one for (name, _), one in zip(known, values, strict=True)})
        except CodecError:
            raise
        except ValueError as error:  # what the class itself refuses
            raise CodecError(str(error)) from error

    return decode_object


def _paired(pair: tuple[Decoder, Any]) -> Any:
    decoder, value = pair
    return decoder(value)


def _each(parts: Iterable[tuple[str | int, Any]], decoder: Decoder) -> list[Any]:
    """Decode the parts of a value; an error names the part."""
    found = []
    step: str | int = ""
    try:
        for step, value in parts:  # noqa: B007 (the error names it)
            found.append(decoder(value))
    except CodecError as error:
        raise error.inside(step) from None
    return found


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unfit(NAMES[dict], value)
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _unfit(NAMES[list], value)
    return value


def _unfit(expected: str, value: Any) -> CodecError:
    shown = json.dumps(value)
    return CodecError(f"expected {expected}, found {shown if len(shown) <= SHOWN else f'{shown[:SHOWN]}…'}")


def _deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects stand inside of each other on more than so many levels."""
    level = [value]
    for _ in range(levels + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(level)


def _no_number(text: str) -> Any:
    message = f"{text} is not a JSON number"
    raise CodecError(message)


def _finite(text: str) -> float:
    value = float(text)
    return _no_number(text) if value in (float("inf"), float("-inf")) else value


def _integer(text: str) -> int:
    value = int(text) if len(text) <= SHOWN else LARGEST + 1
    if not SMALLEST <= value <= LARGEST:
        message = f"{text[:SHOWN]} has more than 64 bits"
        raise CodecError(message)
    return value
