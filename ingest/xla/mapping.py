"""Which instruction of its module each launch computes.

A launch says its instruction (`hlo_op`), unless a command buffer launched it: then `hlo_op` names the buffer. XLA
launches what a buffer holds in the order of the schedule, kernels are named like fusions (equal fusions share the
kernel of the first), and kernels of libraries are called by the custom call that stands there. So the launches of a
buffer are laid beside that part of the schedule, of the module or of what a loop runs, and taken for it only where
every fusion fits; else a kernel counts as the fusion with its name.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kerneldb.ingest.xla.hlo import LOOPS, Instruction, Module, stem

BY_NAME, BY_OP, BY_ORDER = "kernel name", "hlo_op", "order in the command buffer"
FUSED, COPIED, CALLED, COLLECTIVE = "fusion", "copy", "library", "collective"
COLLECTIVES: Final = re.compile(
    r"(all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|collective-broadcast|send|"
    r"recv)(-start)?"
)


class Launch(NamedTuple):
    """What is known of a launch: its place among the rows, kind and name, and what it names as its instruction."""

    place: int
    kind: str
    name: str
    hlo_op: str | None
    correlation: int | None


class Stretch(NamedTuple):
    """A part of `Module.launching`, and what of it."""

    part: int
    first: int
    last: int


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The instruction of a launch, and how it was found."""

    place: int
    instruction: Instruction
    method: str


class Mapper:
    """Finds the instructions of the launches of one module on one GPU, in order of time."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._places = [{one.name: place for place, one in enumerate(part)} for part in module.launching]
        self._aligned: dict[tuple[tuple[str, ...], Stretch], list[Instruction | None] | None] = {}

    def found(self, launches: Iterable[Launch]) -> Iterator[Found]:
        """The launches whose instruction is known."""
        groups = [
            list(group) for _, group in itertools.groupby(launches, key=lambda one: (one.hlo_op, self._buffer(one)))
        ]
        for number, group in enumerate(groups):
            own = self._module.by_name.get(group[0].hlo_op or "")
            if own is not None and own.opcode != "call":
                yield from (Found(one.place, own, BY_OP) for one in group)
            else:
                yield from self._of_buffer(group, self._ends(groups, number))

    def _buffer(self, one: Launch) -> int | None:
        """What tells two launches of one buffer apart; nothing for other launches."""
        return None if one.hlo_op in self._module.by_name else one.correlation

    def _ends(self, groups: Sequence[Sequence[Launch]], number: int) -> Iterator[Stretch]:
        """Where a buffer may be in each part of the schedule: between the launches around it, or at an end."""
        above = groups[number - 1][0].hlo_op if number else None
        below = groups[number + 1][0].hlo_op if number + 1 < len(groups) else None
        for part, places in enumerate(self._places):
            whole = len(self._module.launching[part])
            before, after = places.get(above or "", -1) + 1, places.get(below or "", whole)
            pairs = ((before, after), (before, whole), (0, after), (0, whole))
            yield from dict.fromkeys(Stretch(part, first, last) for first, last in pairs if first < last)

    def _of_buffer(self, group: Sequence[Launch], ends: Iterable[Stretch]) -> Iterator[Found]:
        tokens = tuple(f"{_kind(one)}:{one.name}" for one in group)
        laid = next((found for one in ends if (found := self._laid(tokens, one)) is not None), None)
        for one, instruction in zip(group, laid or itertools.repeat(None), strict=False):
            named = self._module.by_kernel.get(one.name) if laid is None else None
            if instruction is not None:
                yield Found(one.place, instruction, BY_ORDER)
            elif named is not None:
                yield Found(one.place, named, BY_NAME)

    def _laid(self, tokens: tuple[str, ...], at: Stretch) -> list[Instruction | None] | None:
        key = (tokens, at)
        if key not in self._aligned:
            self._aligned[key] = self._lay(tokens, self._module.launching[at.part][at.first : at.last])
        return self._aligned[key]

    def _lay(self, tokens: Sequence[str], instructions: Sequence[Instruction]) -> list[Instruction | None] | None:
        """The instruction of each launch; None where fusions and their kernels do not fit one to one."""
        if any(one.opcode in LOOPS for one in instructions):
            return None
        kernels = [self._role(token) for token in tokens]
        fused = [place for place, role in enumerate(kernels) if role == FUSED]
        fusions = [place for place, one in enumerate(instructions) if _role_of(one) == FUSED]
        names = [tokens[place].partition(":")[2] for place in fused]
        if [stem(name) for name in names] != [instructions[place].stem for place in fusions]:
            return None
        laid: list[Instruction | None] = [None] * len(tokens)
        for place, number in zip(fused, fusions, strict=True):
            laid[place] = instructions[number]
        for (start, end), (begin, stop) in zip(
            _gaps(fused, len(tokens)), _gaps(fusions, len(instructions)), strict=True
        ):
            for role in (COPIED, CALLED, COLLECTIVE):
                _fill(laid, [at for at in range(start, end) if kernels[at] == role], instructions[begin:stop], role)
        return laid

    def _role(self, token: str) -> str | None:
        kind, _, name = token.partition(":")
        if kind == COPIED or name.startswith("memcpy"):
            return COPIED
        if name.startswith("nccl"):
            return COLLECTIVE
        return None if kind == "memset" else FUSED if name in self._module.by_kernel else CALLED


def _kind(one: Launch) -> str:
    return COPIED if one.kind == "memcpy" else one.kind


def _role_of(one: Instruction) -> str:
    if one.opcode.startswith("copy"):
        return COPIED
    if COLLECTIVES.fullmatch(one.opcode):
        return COLLECTIVE
    return CALLED if one.opcode in ("custom-call", "convolution", "dot", "sort") else FUSED


def _gaps(places: Sequence[int], end: int) -> list[tuple[int, int]]:
    """The stretches before, between and behind the places."""
    return list(zip([0, *(place + 1 for place in places)], [*places, end], strict=True))


def _fill(laid: list[Instruction | None], places: Sequence[int], among: Sequence[Instruction], role: str) -> None:
    """Give the launches of a gap to its instructions of that role: all to the only one, else one to one."""
    own = [one for one in among if _role_of(one) == role]
    if len(own) == 1:
        own *= len(places)
    if len(own) == len(places):
        for place, one in zip(places, own, strict=True):
            laid[place] = one
