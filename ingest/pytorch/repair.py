"""Reads one event, or the metadata around the events, out of text that is not valid JSON.

The defects and the versions that write them: `docs/formats/pytorch.md`. A repair changes only how a string is escaped
or a number is spelled; what still does not parse is given up and counted by the caller. What nests more deeply than the
parser follows is no damage: the RecursionError is the caller's, who refuses the file.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kerneldb.ingest import nested
from kerneldb.ingest.pytorch.values import ExactFloat

SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")

DECODER: Final = json.JSONDecoder(strict=False, parse_float=ExactFloat)
STRICT: Final = json.JSONDecoder(parse_float=ExactFloat)
LONE_BACKSLASH: Final = re.compile(r'\\(?!["\\/bfnrtu])')
INNER_QUOTE: Final = re.compile(r'(?<!\\)"')
SPARE_COMMA: Final = re.compile(r",(?=\s*[,}\]])")
# The event's name ends where the next key of any known layout begins.
NEXT_KEY: Final = r'("\s*,\s*"(?:pid|ph|cat|tid|ts|args)"\s*:)'
EVENT_NAME: Final = re.compile(r'("name"\s*:\s*")(.*?)' + NEXT_KEY, re.DOTALL)
BEHIND_NAME: Final = re.compile(NEXT_KEY)
LINE_STRING: Final = re.compile(r'^([^\S\n]*"[^"\n]+"\s*:\s*")(.*)("[^\S\n]*+(?:,[^\S\n]*+)?)$', re.MULTILINE)
BARE_NUMBER: Final = re.compile(r"(?<=[:\[,])(\s*)(-?)(?:inf|nan|-nan)(?=\s*[,\]}])", re.IGNORECASE)
MISSING_QUOTE: Final = re.compile(r'(?<=[{,])(\s*)([A-Za-z]\w*)"(?=\s*:)')
LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""What the escape of one half of a surrogate pair leaves (`\\ud800` alone): neither UTF-8 nor a database takes it."""
REPLACEMENT: Final = "\ufffd"
NEXT_OBJECT: Final = re.compile(r"\s*,\s*(?=\{)")
PADDING: Final = " \r\n\t\0"
CLOSED: Final = re.compile(r"\}\s*\]")
CLOSINGS: Final = 64
"""So many places where the array may end are tried: each costs reading the whole text."""
MOST_REPAIRED: Final = 16 << 20
"""Bytes: the patterns of repairs take minutes for a text of hundreds of megabytes, which no event has."""
BETWEEN: Final = re.compile(f"[{PADDING},]*")
CONTROL: Final = re.compile(r"[\x00-\x1f]+")


def parse_event(text: str) -> tuple[dict[str, Any], bool] | None:
    """The event in `text` and whether it had to be repaired, or None where nothing helps."""
    for repaired, candidate in _candidates(text):
        try:
            event = (DECODER if repaired else STRICT).decode(candidate)
        except ValueError:
            continue
        return (event, repaired) if isinstance(event, dict) else None
    return None


def parse_run(text: str) -> list[object] | None:
    """The values in `text` where it is several with commas between them: what is read so needs no repair."""
    try:
        values: list[object] = STRICT.decode(f"[{text}]")
    except ValueError:
        return None
    return values if len(values) > 1 else None


def leading(text: str) -> tuple[list[object], str]:
    """The valid values that `text` begins with, each before a comma and another object, and what follows them."""
    values: list[object] = []
    position = len(text) - len(text.lstrip())
    while True:
        try:
            value, end = STRICT.raw_decode(text, position)
        except ValueError:
            return values, text[position:]
        if (gap := NEXT_OBJECT.match(text, end)) is None:
            return values, text[position:]
        values.append(value)
        position = gap.end()


def parse_object(text: str) -> tuple[dict[str, Any], int]:
    """The JSON object in `text` and the number of repaired strings; empty where nothing helps.

    Raises ExceededError where it nests more deeply than the parser follows.
    """
    try:
        return _parse_object(text)
    except RecursionError as error:
        raise nested.error(text) from error


def _parse_object(text: str) -> tuple[dict[str, Any], int]:
    for repaired, candidate in _candidates(text):
        try:
            value = json.loads(candidate, strict=not repaired)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value, int(repaired)
    return _members(text), 1


def without_surrogates(text: str) -> str:
    """`text` with U+FFFD for each lone surrogate."""
    return LONE_SURROGATE.sub(REPLACEMENT, text)


def object_without_surrogates(value: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The JSON object `value` without lone surrogates, and whether it had any."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:  # as deep as the parser just followed
        return value, 0
    if LONE_SURROGATE.search(text) is None:
        return value, 0
    return json.loads(without_surrogates(text)), 1


def split_end(behind: str, in_object: bool) -> tuple[str, str]:
    """What follows the events: the rest of the document, and text behind its end (padding does not count).

    A rest that does not parse as it stands is returned whole: only a repair finds where it ends. Raises ExceededError
    where it nests more deeply than the parser follows.
    """
    rest = behind.strip(PADDING + ",")
    if not in_object or not rest.startswith(('"', "}")):
        return "", rest  # neither goes on with a key nor ends here
    try:
        _, end = DECODER.raw_decode("{" + rest)
    except ValueError:
        return rest, ""
    except RecursionError as error:
        raise nested.error(rest) from error
    return rest[: end - 1], rest[end - 1 :].strip(PADDING + ",")


def is_cut(behind: str, in_object: bool) -> bool:
    """Whether what follows the events breaks off within a value, such as another list: the next piece goes on in it."""
    rest = behind.strip(PADDING + ",")
    if not in_object or not rest.startswith('"'):
        return False
    try:
        msgspec.json.decode("{" + rest)
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    except RecursionError:
        return False
    return False


def split_events(text: str) -> tuple[list[dict[str, Any]], int, int, str | None]:
    """Read events from `text`, a comma-separated run of them.

    Returns the events, how many were repaired, how many were lost, and what follows the closing bracket of the
    array (None when the array does not end here).
    """
    events: list[dict[str, Any]] = []
    position, end = 0, len(text)
    while position < end:
        position = _behind_padding(text, position)
        if position >= end:
            break
        if text[position] == "]":
            return events, 0, 0, text[position + 1 :]
        try:
            event, position = DECODER.raw_decode(text, position)
        except ValueError:
            return _repair_rest(events, text[position:])
        events.append(event)
    return events, 0, 0, None


def _behind_padding(text: str, position: int) -> int:
    found = BETWEEN.match(text, position)
    return position if found is None else found.end()


def _repair_rest(events: list[dict[str, Any]], text: str) -> tuple[list[dict[str, Any]], int, int, str | None]:
    # Brackets that may close the array: those that follow the closing brace of an event.
    for closing in (match.end() - 1 for match in itertools.islice(CLOSED.finditer(text, 0, MOST_REPAIRED), CLOSINGS)):
        parsed = parse_event(text[:closing])
        if parsed is not None:
            return [*events, parsed[0]], 1, 0, text[closing + 1 :]
    parsed = parse_event(text)
    if parsed is not None:
        return [*events, parsed[0]], 1, 0, None
    return events, 0, 1, None


def _candidates(text: str) -> Iterator[tuple[bool, str]]:
    yield False, text
    if len(text) > MOST_REPAIRED:
        return
    last = max((match.end() for match in BEHIND_NAME.finditer(text)), default=0)
    named = EVENT_NAME.sub(_escape_inner, text[:last]) + text[last:]  # behind it each name would be sought to the end
    yield True, named
    backslashes = LONE_BACKSLASH.sub(r"\\\\", named)
    yield True, backslashes
    numbers = MISSING_QUOTE.sub(r'\1"\2"', BARE_NUMBER.sub(r"\1null", backslashes))
    yield True, SPARE_COMMA.sub("", numbers)
    yield True, LINE_STRING.sub(_escape_inner, numbers.replace("\r", "\n"))


def _escape_inner(match: re.Match[str]) -> str:
    body = CONTROL.sub(" ", match.group(2))
    if LONE_BACKSLASH.search(body):  # a path: no backslash of it was meant as an escape
        body = body.replace("\\", "\\\\").replace('"', '\\"')
    else:
        body = INNER_QUOTE.sub(r'\\"', body)
    return match.group(1) + body + match.group(3)


def _members(text: str) -> dict[str, Any]:
    """The `"key": value` members of a broken object that parse by themselves, one per line."""
    found: dict[str, Any] = {}
    for match in re.finditer(r'^[^\S\n]*"(?P<key>[^"\n]+)"\s*:\s*', text, re.MULTILINE):
        try:
            found[match["key"]] = DECODER.raw_decode(text, match.end())[0]
        except ValueError:
            continue
    return found


def arguments_of(text: str | None) -> dict[str, Any]:
    """The arguments of an event from their JSON; empty where they are no object."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return object_without_surrogates(value)[0] if text and SURROGATE_ESCAPE.search(text) else value
