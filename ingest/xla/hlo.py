"""Modules of HLO, the programs that XLA compiled: which instruction a kernel computes, and over which shapes.

Field numbers: openxla/xla, xla/service/hlo.proto and xla/xla_data.proto (HloProto.hlo_module 1; HloModuleProto: name 1,
computations 3, entry_computation_id 6, schedule 7, stack_frame_index 17; HloComputationProto: instructions 2, id 5;
HloInstructionProto: name 1, opcode 2, shape 3, metadata 7, fusion_kind 11, custom_call_target 28,
dot_dimension_numbers 30, id 35, operand_ids 36, called_computation_ids 38, backend_config 43;
ShapeProto: element_type 2, dimensions 3, tuple_shapes 4, layout 5 with minor_to_major 1).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from kerneldb.ingest.pytorch.identity import CallRow, call_id
from kerneldb.ingest.wire import Message, WireError, signed

NAMESPACE: Final = "hlo::"
TYPES: Final = (
    *("invalid", "pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "tuple", "opaque"),
    *("c64", "bf16", "token", "c128", "f8e5m2", "f8e4m3fn", "s4", "u4", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz"),
    *("s2", "u2", "f8e4m3", "f8e3m4", "s1", "u1", "f4e2m1fn", "f8e8m0fnu"),
)
"""Names of PrimitiveType, by number."""
TUPLE: Final = TYPES.index("tuple")
C_TYPES: Final = {
    **{"pred": "bool", "s8": "signed char", "s16": "short int", "s32": "int", "s64": "long int", "u8": "unsigned char"},
    **{"u16": "unsigned short", "u32": "unsigned int", "u64": "unsigned long", "f16": "c10::Half", "f32": "float"},
    **{"f64": "double", "bf16": "c10::BFloat16", "c64": "c10::complex<float>", "c128": "c10::complex<double>"},
    **{"f8e5m2": "c10::Float8_e5m2", "f8e4m3fn": "c10::Float8_e4m3fn", "f8e5m2fnuz": "c10::Float8_e5m2fnuz"},
    **{"f8e4m3fnuz": "c10::Float8_e4m3fnuz", "f8e8m0fnu": "c10::Float8_e8m0fnu"},
}
"""Types as other readers spell them; those without a counterpart stay as they are."""
NO_KERNEL: Final = re.compile(
    r"parameter|constant|tuple|get-tuple-element|bitcast|after-all|add-dependency|optimization-barrier|partition-id|"
    r"replica-id|domain|.*-done"
)
"""Instructions that run nothing on the GPU. `-done` waits for what `-start` began."""
LIBRARIES: Final = (
    (re.compile(r"__cublas\$.*(gemm|matmul).*|cublas.*gemm.*"), "dot"),
    (re.compile(r"__cudnn\$conv.*"), "convolution"),
)
"""Targets of custom calls that are known → the operation that they stand for."""
MAIN: Final = ("convolution", "dot", "sort", "scatter", "select-and-scatter", "reduce-window", "reduce")
"""What a fusion is named for where it holds one of them, the first first."""
LOOPS: Final = ("while", "conditional")
DEEPEST: Final = 8
MOST_LAUNCHING: Final = 1 << 18
"""A module of more instructions is no program: computations that call each other."""
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """An array: element type, sizes, and strides in elements as its layout says (NULL where it does not)."""

    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...] | None

    def __str__(self) -> str:
        """As HLO prints it, without the layout: `bf16[8,512]`."""
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `message` holds what is not asked for of all of them."""

    number: int
    name: str
    opcode: str
    message: Message

    @property
    def target(self) -> str | None:
        """What a custom call calls."""
        return self.message.text(28)

    @property
    def stem(self) -> str:
        """The name without its number, as its kernel is named too: `loop_add_fusion` of `loop_add_fusion.14`."""
        return stem(self.name)


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """An instruction as rows hold it: `op_name` is the path of the traced function, `source` the file and line."""

    call: CallRow
    op_name: str | None
    source: str | None


def stem(name: str) -> str:
    """A name of a kernel or instruction without its number and with underscores only."""
    return re.sub(r"(_\d+)+$", "", spelled(name))


def spelled(name: str) -> str:
    """A name of an instruction as its kernel is named: only letters, digits and underscores."""
    return re.sub(r"\W", "_", name)


class Module:
    """A module: its instructions by name and number. Raises WireError where the proto is damaged."""

    def __init__(self, proto: bytes) -> None:
        module = Message(proto).message(1)
        if module is None:
            message = "no module in it"
            raise WireError(message)
        self._module = module
        self.name = module.text(1) or ""
        self._by_number: dict[int, Instruction] = {}
        self._inside: dict[int, list[int]] = {}
        for part in module.parts(3):
            computation = Message(part)
            listed = [_instruction(one) for one in computation.parts(2)]
            self._by_number.update((one.number, one) for one in listed)
            self._inside[computation.number(5) or 0] = [one.number for one in listed]
        self.by_name: dict[str, Instruction] = {}
        self.by_kernel: dict[str, Instruction] = {}
        for one in self._by_number.values():
            self.by_name.setdefault(one.name, one)
        for one in itertools.chain.from_iterable(self.launching):
            self.by_kernel.setdefault(spelled(one.name), one)

    @functools.cached_property
    def launching(self) -> list[list[Instruction]]:
        """What runs on the GPU in the order of the schedule, called computations in place.

        Of the module, then of each computation that its loops and branches run; a loop itself stays as it is.
        """
        entry = self._module.number(6) or 0
        listed, waiting, seen, rest = [], [entry], {entry}, MOST_LAUNCHING
        while waiting and rest > 0:
            part = list(itertools.islice(self._launching(waiting.pop(0), 0), rest))
            listed.append(part)
            rest -= len(part)
            inside = (number for one in part if one.opcode in LOOPS for number in _called(one))
            fresh = [number for number in dict.fromkeys(inside) if number not in seen]
            seen.update(fresh)
            waiting += fresh
        return listed

    def _launching(self, computation: int, depth: int) -> Iterator[Instruction]:
        for number in self._scheduled.get(computation, self._inside.get(computation, [])):
            one = self._by_number.get(number)
            if one is None or NO_KERNEL.fullmatch(one.opcode):
                continue
            inner = _called(one) if one.opcode in ("call", "async-start") and depth < DEEPEST else []
            if inner:
                yield from self._launching(inner[0], depth + 1)
            else:
                yield one

    @functools.cached_property
    def _scheduled(self) -> dict[int, list[int]]:
        """The sequence of each computation (HloScheduleProto: sequences 1, a map; InstructionSequence: ids 1)."""
        schedule = self._module.message(7)
        entries = [Message(part) for part in schedule.parts(1)] if schedule is not None else []
        found = ((entry.number(1) or 0, entry.message(2)) for entry in entries)
        return {number: sequence.numbers(1) for number, sequence in found if sequence is not None}

    def described(self, one: Instruction) -> Described:
        """An instruction with the shapes of its operands. Raises WireError where it is damaged."""
        operands = [self._by_number.get(number) for number in one.message.numbers(36)]
        shapes = [shape for operand in operands if operand is not None for shape in _shapes(operand.message)]
        extra = {
            "opcode": one.opcode,
            "fusion": one.message.text(11),
            "target": one.target,
            "result": ", ".join(map(str, _shapes(one.message))),
        }
        strides = [shape.strides for shape in shapes]
        product = self._product(one)
        # A number or text among the arguments has neither sizes nor strides, as in traces of PyTorch.
        last: list[tuple[int, ...]] = [] if product is None else [()]
        row: CallRow = {
            "op": NAMESPACE + self.operation(one),
            "input_dims": _json([shape.dims for shape in shapes] + last),
            "input_strides": _json([*strides, *last]) if None not in strides else None,
            "input_dtypes": _json([C_TYPES.get(shape.dtype, shape.dtype) for shape in shapes] + [""] * len(last)),
            "scalars": None if product is None else _json([*([""] * len(shapes)), product]),
            "extra": json.dumps({key: value for key, value in extra.items() if value}),
        }
        row["call_id"] = call_id(row)
        metadata = one.message.message(7)
        if metadata is None:
            return Described(row, None, None)
        return Described(row, metadata.text(2), self._source(metadata))

    def operation(self, one: Instruction) -> str:
        """What it computes: its opcode; of a fusion the main operation inside; of a known library call what it does.

        What begins here and ends at another instruction (`all-reduce-start`) is named like what does both.
        """
        if one.opcode == "custom-call":
            target = one.target or ""
            return next((name for pattern, name in LIBRARIES if pattern.fullmatch(target)), one.opcode)
        if one.opcode != "fusion":
            return one.opcode.removesuffix("-start")
        inside = {inner.opcode for inner in self._fused(one)}
        return next((opcode for opcode in MAIN if opcode in inside), one.opcode)

    def _fused(self, one: Instruction) -> list[Instruction]:
        """The instructions inside a fusion, and inside what they call; each computation once."""
        found: list[Instruction] = []
        waiting, seen = [one], set[int]()
        while waiting:
            for computation in set(_called(waiting.pop())) - seen:
                seen.add(computation)
                inside = [self._by_number[number] for number in self._inside.get(computation, [])]
                found += inside
                waiting += [inner for inner in inside if inner.opcode in ("fusion", "call")]
        return found

    def _product(self, one: Instruction) -> str | None:
        """The one matrix product that it is or holds, as HLO prints it: operands, result, and which sizes are summed.

        `bf16[8,512] x bf16[512,64] -> f32[8,64], lhs_contracting_dims={1}, rhs_contracting_dims={0}`; batches likewise.
        """
        dots = [inner for inner in (one, *self._fused(one)) if inner.opcode == "dot" or self._is_library_dot(inner)]
        if len(dots) != 1:
            return None
        operands = [self._by_number.get(number) for number in dots[0].message.numbers(36)][:2]
        shapes = [shape for operand in operands if operand for shape in _shapes(operand.message)]
        result, numbers = _shapes(one.message), _dot_numbers(dots[0])
        if len(shapes) != len(operands) or not result or not any(numbers.values()):
            return None
        said = [f"{key}={{{','.join(map(str, axes))}}}" for key, axes in numbers.items() if axes]
        return f"{shapes[0]} x {shapes[1]} -> {result[0]}, {', '.join(said)}"

    def _is_library_dot(self, one: Instruction) -> bool:
        return one.opcode == "custom-call" and self.operation(one) == "dot"

    def _source(self, metadata: Message) -> str | None:
        """`file:line`, from OpMetadata (source_file 3, source_line 4) or its stack frame (15)."""
        file, line = metadata.text(3), metadata.number(4)
        if file:
            return f"{file}:{line}" if line else file
        return self._frames.get(metadata.number(15) or 0)

    @functools.cached_property
    def _frames(self) -> Mapping[int, str]:
        """Stack frame → file and line.

        StackFrameIndexProto: file_names 1, file_locations 3 (file_name_id 1, line 3), stack_frames 4
        (file_location_id 1); numbers count from 1.
        """
        index = self._module.message(17)
        if index is None:
            return {}
        files = [name.decode(errors="replace") for name in index.parts(1)]
        places = [Message(part) for part in index.parts(3)]
        frames = [Message(part) for part in index.parts(4)]
        found: dict[int, str] = {}
        for number, frame in enumerate(frames, 1):
            place = _counted_from_one(places, frame.number(1))
            file = place and _counted_from_one(files, place.number(1))
            if place and file:
                found[number] = f"{file}:{place.number(3) or 0}"
        return found


def _counted_from_one(listed: list[T], number: int | None) -> T | None:
    return listed[number - 1] if number and number <= len(listed) else None


def _instruction(data: bytes) -> Instruction:
    message = Message(data)
    return Instruction(message.number(35) or 0, message.text(1) or "", message.text(2) or "", message)


def _dot_numbers(one: Instruction) -> dict[str, list[int]]:
    """Which sizes of a product are summed and which are batches.

    DotDimensionNumbers: lhs_contracting 1, rhs_contracting 2, lhs_batch 3, rhs_batch 4; a call of cuBLAS has them in
    its `backend_config` (HloInstructionProto 43), JSON of GpuBackendConfig.gemm_backend_config.
    """
    keys = [f"{side}_{what}_dim" for what in ("contracting", "batch") for side in ("lhs", "rhs")]
    message = one.message.message(30)
    if message is not None:
        return {f"{key}s": message.numbers(field) for field, key in enumerate(keys, 1)}
    try:
        config = json.loads(one.message.text(43) or "{}")["gemm_backend_config"]["dot_dimension_numbers"]
        return {f"{key}s": [int(axis) for axis in config.get(f"{key}ensions", ())] for key in keys}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _called(one: Instruction) -> list[int]:
    return one.message.numbers(38)


def _shapes(message: Message) -> list[Shape]:
    """The arrays of the shape of an instruction; those of a tuple one by one."""
    shape = message.message(3)
    return [] if shape is None else list(_arrays(shape, 0))


def _arrays(shape: Message, depth: int) -> Iterator[Shape]:
    kind = shape.number(2) or 0
    if kind == TUPLE:
        for part in shape.parts(4) if depth < DEEPEST else ():
            yield from _arrays(Message(part), depth + 1)
        return
    dims = tuple(max(signed(size), 0) for size in shape.numbers(3))
    layout = shape.message(5)
    yield Shape(TYPES[kind] if kind < len(TYPES) else f"type{kind}", dims, _strides(dims, layout))


def _strides(dims: tuple[int, ...], layout: Message | None) -> tuple[int, ...] | None:
    order = layout.numbers(1) if layout is not None else []
    if sorted(order) != list(range(len(dims))):
        return None
    strides, step = [0] * len(dims), 1
    for axis in order:
        strides[axis] = step
        step *= max(dims[axis], 1)
    return tuple(strides)


def _json(values: Sequence[object]) -> str | None:
    return json.dumps(values) if values else None
