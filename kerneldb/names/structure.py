"""The structure of a kernel name: qualifier, function, template arguments, and one canonical spelling of them.

Profilers print one kernel in different ways, because each has its own demangler:

==============  ====================================================================================================
Kineto          ``void f<4, g(T&)::{lambda(int)#1}, a<char*, 2ul> >(int, a<char*, 2ul>)``, ``(anonymous namespace)::``
nsys            ``void f<(int)4, void g(T &)::[lambda(int) (instance 1)], a<char *, (unsigned long)2>>(int, T3)``
ncu             as nsys without casts and with fewer namespaces; loses ``<`` of ``<unnamed>`` and ``const::[``
ROCm            mangled, ``.kd``, ``[clone .kd]``; LLVM spells a lambda ``'lambda0'(int)``
==============  ====================================================================================================

The canonical spelling drops return types, the parameter lists of templates (nsys and ncu print those with ``T1``
placeholders) and namespaces (ncu leaves out some or all), puts ``const`` behind its type, and writes one form for
casts, literals and lambdas. A function that is not a template keeps its parameter types: overloads differ in nothing
else. One pass over the tokens, no backtracking: the time is linear in the length of the name.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from kerneldb.names.demangling import demangle, strip_suffixes
from kerneldb.names.dtypes import element_type

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOKEN = re.compile(
    r"\boperator\b\s*(?:\(\)|\[\]|<=>|<<=|>>=|->\*?|[-+*/%^&|=!<>]=|<<|>>|&&|\|\||\+\+|--|[-+*/%^&|~!=<>,])"
    r"|(?:[^\W\d]|\$)[\w$]*(?:::)?|\d[\w.]*|#\d+|::|->|\s+|."
)
_LAMBDA = re.compile(r"[{\[]lambda\(")
_LAMBDA_NUMBER = re.compile(r" \(instance (\d+)\)\]?|(#\d+)\}")
_LLVM_LAMBDA = re.compile(r"'lambda(\d{0,9})'(?=\()")
_ANONYMOUS = ("(anonymous namespace)::", "{anonymous}::", "`anonymous namespace'::")
# ncu loses the "<" of "<unnamed>::": in "Cat<unnamed>::Opaque<2>" the bracket in front belongs to the template.
_UNNAMED = re.compile(r"(?:(?<!\w)<)?\bunnamed>::")
_LITERALS = {"true": "1", "false": "0"}
_NOISE = frozenset(("__restrict__", "__restrict", "volatile", "typename", "class", "struct", "enum"))
# What may precede a token: nothing yet in this argument, a word, a parameter list, or a scope operator.
_START, _WORD, _PARAMETERS, _SCOPE = range(4)


class _Frame:
    """One open bracket: its kind and where its current argument and that argument's last word start in the output."""

    __slots__ = ("argument", "closing", "const", "kind", "word")

    def __init__(self, kind: str, position: int, closing: str = "") -> None:
        self.kind = kind
        self.closing = closing
        self.argument = position
        self.word = position
        self.const = False


class Structure:
    """A parsed name.

    Attributes:
        canonical: the one spelling that all profilers' spellings of this kernel share.
        qualifier: namespaces in front of the function, such as ``at::native::``, as far as this profiler prints them.
        base: the function's name without template arguments.
        args: its template arguments, each in canonical spelling.
    """

    __slots__ = ("args", "base", "canonical", "qualifier")

    def __init__(self, canonical: str, qualifier: str, base: str, args: tuple[str, ...]) -> None:
        self.canonical = canonical
        self.qualifier = qualifier
        self.base = base
        self.args = args

    @property
    def head(self) -> str:
        """Qualifier and function name: what the rules look at."""
        return self.qualifier + self.base

    def respelled(self, word: str, meant: str) -> Structure:
        """The same name with another spelling of a type."""
        args = tuple(arg.replace(word, meant) for arg in self.args)
        return Structure(self.canonical.replace(word, meant), self.qualifier, self.base, args)


def _unify(text: str) -> str:
    """Write anonymous namespaces (away) and lambdas (``lambda(int)#1``) alike, before the text is cut into tokens."""
    for spelling in _ANONYMOUS:
        if spelling in text:
            text = text.replace(spelling, "")
    if "unnamed>" in text:
        text = _UNNAMED.sub("", text)
    if "lambda" in text:
        text = _LAMBDA.sub("lambda(", text)
        text = _LAMBDA_NUMBER.sub(lambda m: m[2] or f"#{m[1]}", text)
        if "'lambda" in text:
            # LLVM numbers a function's lambdas '', 0, 1, ...; the others 1, 2, 3, ... after the parameters.
            text = _LLVM_LAMBDA.sub(lambda m: f"lambda#{int(m[1]) + 2 if m[1] else 1}", text)
    return text


def _closing(tokens: list[str]) -> dict[int, int]:
    """Map every ``(`` to its ``)``; one that is never closed maps to the end."""
    closing: dict[int, int] = {}
    stack: list[int] = []
    for index in [i for i, token in enumerate(tokens) if token in {"(", ")"}]:
        if tokens[index] == "(":
            stack.append(index)
        elif stack:
            closing[stack.pop()] = index
    for index in stack:
        closing[index] = len(tokens)
    return closing


class _Parser:
    """One pass over the tokens of a name. Bracket depth lives in ``frames``: without recursion any depth will do."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(_unify(text))
        self.closing = _closing(self.tokens)
        self.out: list[str] = []
        self.frames = [_Frame("", 0)]
        self.before = _START
        self.spaced = False
        self.begin = 0
        self.qualifier: list[str] = []
        self.base = ""
        self.args: list[str] = []
        self.done = False

    def parse(self) -> Structure:
        """Run the pass and return the structure."""
        index, end, tokens, handlers = 0, len(self.tokens), self.tokens, _HANDLERS
        while index < end and not self.done:
            token = tokens[index]
            handler = handlers.get(token)
            index = handler(self, index) if handler is not None else self._word(index, token)
        while len(self.frames) > 1:
            self._end_argument()
            self.frames.pop()
        self._end_argument()
        if self.out[:1] == ["void"]:
            self.begin = max(self.begin, self.frames[0].word)
        canonical = "".join(self.out[self.begin :]).strip()
        return Structure(canonical, "".join(self.qualifier), self.base, tuple(self.args))

    # -- words
    def _word(self, index: int, token: str) -> int:
        """Handle a name, number, operator or any character without a handler of its own."""
        if token[0].isspace():
            self.spaced = True
            return index + 1
        if token.endswith("::"):
            if len(self.frames) == 1:
                if self.before == _WORD and self.spaced:
                    self._start_word()
                self.qualifier.append(token)
            return index + 1
        if token in _NOISE:
            return index + 1
        if token.startswith("lambda") and self._is_lambda(index):
            return self._lambda(index)
        self._emit_word(_literal(token))
        return index + 1

    def _start_word(self) -> None:
        """Begin a further word of the current argument: should a parameter list follow, those before were its type."""
        self.out.append(" ")
        frame = self.frames[-1]
        frame.word = len(self.out)
        self.before = _START
        if len(self.frames) == 1:
            self.qualifier.clear()
            self.args.clear()

    def _emit_word(self, text: str) -> None:
        if self.before == _WORD and self.spaced:
            self._start_word()
        self.out.append(text)
        if len(self.frames) == 1:
            self.base = self.base + text if self.before == _WORD else text
        self.before = _WORD
        self.spaced = False

    def _const(self, index: int) -> int:
        """Put ``const`` behind the type it belongs to; drop that of a member function."""
        if self.before == _START:
            self.frames[-1].const = True
        elif self.before == _WORD:
            self.out.append(" const")
        self.spaced = False
        return index + 1

    def _flush_const(self) -> None:
        frame = self.frames[-1]
        if frame.const:
            frame.const = False
            self.out.append(" const")

    def _pointer(self, index: int) -> int:
        """Handle ``*`` and ``&``; an address-of sign in front of a function's name is dropped."""
        if self.before != _START or self.frames[-1].kind == "type":
            self._flush_const()
            self.out.append(self.tokens[index])
            self.before = _WORD
        self.spaced = False
        return index + 1

    def _scope(self, index: int) -> int:
        if self.before == _WORD and self.spaced:
            self._start_word()
        elif self.before != _START:
            self.out.append("::")
            self.before = _SCOPE
        self.spaced = False
        return index + 1

    # -- template arguments
    def _open_angle(self, index: int) -> int:
        self.out.append("<")
        if len(self.frames) == 1:
            self.args.clear()
        self.frames.append(_Frame("<", len(self.out)))
        self.before = _START
        self.spaced = False
        return index + 1

    def _end_argument(self) -> None:
        self._flush_const()
        if [frame.kind for frame in self.frames[:3]] == ["", "<"]:
            text = "".join(self.out[self.frames[1].argument :])
            if text:
                self.args.append(text)

    def _close_angle(self, index: int) -> int:
        self._end_argument()
        if self.frames[-1].kind == "<":
            self.frames.pop()
        self.out.append(">")
        self.before = _WORD
        self.spaced = False
        return index + 1

    def _comma(self, index: int) -> int:
        self._end_argument()
        self.out.append(",")
        frame = self.frames[-1]
        frame.argument = frame.word = len(self.out)
        self.before = _START
        self.spaced = False
        return index + 1

    # -- parentheses
    def _open_round(self, index: int) -> int:
        """Tell casts, groups, function types and parameter lists apart by what precedes the parenthesis."""
        if self.before == _WORD and not self.spaced:
            return self._parameters(index)
        if self.before == _PARAMETERS:
            return self._skip(index)
        after = self.closing[index] + 1
        following = self.tokens[after : after + 2]
        if self.before == _START and following:  # a number follows a cast: "(int)4", "(cudnnDataType_t) -1"
            sign, number = following[0], following[-1]
            if sign[0].isdecimal() or (sign == "-" and number[0].isdecimal()):
                return after
        kind = "group" if self.before == _START else "type"
        if kind == "type":
            self.out.append("(")
        self.frames.append(_Frame(kind, len(self.out), ")" if kind == "type" else ""))
        self.before = _START
        self.spaced = False
        return index + 1

    def _parameters(self, index: int) -> int:
        """Drop a parameter list and the return type in front of its function."""
        frame = self.frames[-1]
        if len(self.frames) > 1:
            del self.out[frame.argument : frame.word]
            frame.word = frame.argument
            frame.const = False
            return self._skip(index)
        self.begin = frame.word
        if self.args or "operator" in self.base:
            self.done = "::" not in self.tokens[self.closing[index] + 1 : self.closing[index] + 4]
            return self._skip(index)
        self.out.append("(")
        self.frames.append(_Frame("(", len(self.out), ")"))
        self.before = _START
        self.spaced = False
        return index + 1

    def _skip(self, index: int) -> int:
        self.before = _PARAMETERS
        self.spaced = False
        return self.closing[index] + 1

    def _close_round(self, index: int) -> int:
        self._end_argument()
        kind = self.frames[-1].kind
        if kind in {"(", "group", "type"}:
            self.out.append(self.frames.pop().closing)
        self.before = _WORD
        # The parentheses after "void (*)" hold the parameters of a function type; types differ in them.
        self.spaced = kind == "type" and self.tokens[index + 1 : index + 2] == ["("]
        return index + 1

    # -- lambdas
    def _is_lambda(self, index: int) -> bool:
        following = self.tokens[index + 1 : index + 3]
        return following[:1] == ["("] or (following[:1] != [] and following[0][0] == "#" and following[1:] == ["("])

    def _lambda(self, index: int) -> int:
        """Write a lambda with its parameter types, which name the element type; its number follows."""
        if self.before == _PARAMETERS:
            self.out.append("::")
        number = self.tokens[index + 1] if self.tokens[index + 1] != "(" else ""
        self.out.append("lambda(")
        self.frames.append(_Frame("(", len(self.out), ")" + number))
        self.before = _START
        self.spaced = False
        return index + (3 if number else 2)


def _literal(token: str) -> str:
    """Spell booleans as 0 and 1, and drop the suffixes of integers (``3ul``)."""
    if token in _LITERALS:
        return _LITERALS[token]
    if token[0].isdecimal():
        return token.rstrip("uUlL")
    return "operator()" if token.startswith("operator") and token.endswith("()") else token


_HANDLERS = {
    "const": _Parser._const,
    "*": _Parser._pointer,
    "&": _Parser._pointer,
    "::": _Parser._scope,
    "<": _Parser._open_angle,
    ">": _Parser._close_angle,
    ",": _Parser._comma,
    "(": _Parser._open_round,
    ")": _Parser._close_round,
}


# The nested name in front of a symbol: an identifier with its length before it, `St` (std), `S_` and such (repeats).
_MANGLED_START = re.compile(r"_Z+(?:L|N[rVK]*)?")
_IDENTIFIER_LENGTH = re.compile(r"(?<!\d)(?<![ST])(?<!L[a-z])(?<!L[a-z]n)\d{1,3}(?=[A-Za-z_])")  # not S4_, not Li128E
_BUILTINS = {"DF16b": "__bf16", "DF16_": "_Float16"}


def _mangled(text: str) -> Structure:
    """Read a symbol that no demangler takes (cut short, or of a newer compiler): its identifiers have their lengths.

    The first argument is made of all identifiers that follow the function's, the others are the element types there.
    """
    start = _MANGLED_START.match(text)
    place = start.end() if start else 0
    qualifier: list[str] = []
    while (length := _IDENTIFIER_LENGTH.match(text, place)) is not None:
        place = length.end() + int(length[0])
        qualifier.append(text[length.end() : place])
    rest, inner = text[place:], []
    end = 0
    for length in _IDENTIFIER_LENGTH.finditer(rest):
        if length.start() >= end:
            end = length.end() + int(length[0])
            inner.append(rest[length.end() : end])
    base = qualifier.pop() if qualifier else text
    namespaces = "".join(f"{part}::" for part in qualifier if not part.startswith("_GLOBAL__N"))
    types = [word for word in inner if element_type(word)] + [_BUILTINS[code] for code in _BUILTINS if code in rest]
    return Structure(text, namespaces, base, ("::".join(inner), *types) if inner else tuple(types))


_SYMBOL = re.compile(r"(?!true$|false$|operator)[A-Za-z_]\w*", re.ASCII)
# What no compiler puts into a name: control characters, and markup. In such a text no word is a return type.
_NO_SYMBOL = re.compile(r"[\x00-\x1f\x7f]|^\s*<(?!unnamed>)|</")
# No kernel's name is longer (templates of templates reach some ten thousand characters): behind it names only differ.
_READ_LIMIT = 65_536


def _is_symbol(text: str) -> bool:
    """Whether a text may be what a demangler prints: of several words without brackets, the first says that it is."""
    first, *others = text.split(None, 1) or [""]
    are_words = bool(others) and "<" not in text and "(" not in text and first not in {"void", "static", "const"}
    return not are_words and _NO_SYMBOL.search(text) is None


def parse(name: str) -> Structure:
    """Parse a printed kernel name, mangled or not. Any text is accepted; what is not C++ parses to itself."""
    text = strip_suffixes(demangle(name))
    if len(text) > _READ_LIMIT:
        begun = parse(text[:_READ_LIMIT])
        rest = hashlib.blake2b(text[_READ_LIMIT:].encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return Structure(f"{begun.canonical}…{rest}", begun.qualifier, begun.base, begun.args)
    if _SYMBOL.fullmatch(text) and text not in _NOISE and not text.startswith("_Z"):
        return Structure(text, "", text, ())
    if text.startswith("_Z") and _IDENTIFIER_LENGTH.search(text, 2, 10):
        return _mangled(text)
    # A memory operation's own wording (``Memcpy HtoD (Pinned -> Device)``).
    if text.startswith(("Memcpy ", "Memset ", "[CUDA ", "[HIP ")) or not _is_symbol(text):
        return Structure(text, "", text, ())
    structure = _Parser(text).parse()
    if not structure.canonical:
        return Structure(text, "", text, ())
    return structure


def match_name(name: str) -> str:
    """Return the spelling that one kernel has in common in Kineto, nsys, ncu and ROCm traces.

    Kernels that differ in a template argument keep different names. Overloads of one template with equal template
    arguments share theirs, and so do equally named kernels of two namespaces, for ncu prints neither.
    """
    return parse(name).canonical


def number_at(args: Sequence[str], index: int) -> int | None:
    """Return the template argument at an index where it is a whole number."""
    return int(args[index]) if args[index:] and args[index].isdecimal() else None


def split_args(text: str) -> list[str]:
    """Split ``a, b<c, d>`` (canonical spelling) at its outermost commas."""
    parts, depth, start = [], 0, 0
    for match in _BRACKET.finditer(text):
        sign = match[0]
        if sign == ",":
            if depth == 0:
                parts.append(text[start : match.start()])
                start = match.end()
        else:
            depth += 1 if sign in "<(" else -1
    parts.append(text[start:])
    return [part for part in parts if part]


_BRACKET = re.compile(r"[<>(),]")


def call(text: str) -> tuple[str, list[str]]:
    """Split a canonical argument ``base<a, b>::rest`` into ``base`` and its template arguments (maybe none)."""
    opening = text.find("<")
    if opening < 0:
        return text, []
    depth = 0
    for match in _BRACKET.finditer(text, opening):
        depth += {"<": 1, ">": -1}.get(match[0], 0)
        if depth == 0:
            return text[:opening], split_args(text[opening + 1 : match.start()])
    return text[:opening], split_args(text[opening + 1 :])
