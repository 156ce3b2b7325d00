"""What templates tell of the tensors of recorded operators, while the flow of data is inferred."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from kerneldb.replay.steps.templates import Aligned, Semantics, Source, Tree, matched
from kerneldb.replay.steps.tensors import Frame, Value, Wanted
from kerneldb.replay.steps.uses import Uses


class Told:
    """Holds recorded operators against what PyTorch does of the call, or of the node, around them."""

    def __init__(self, tree: Tree, semantics: Semantics, uses: Uses, frames: Mapping[int, Frame]) -> None:
        self._tree = tree
        self._semantics = semantics
        self._uses = uses
        self._frames = frames
        self._aligned: dict[int, Aligned] = {}
        self._owners: dict[int, list[tuple[Frame, int]]] = defaultdict(list)
        self._made: dict[tuple[int, int], Sequence[Value]] = {}

    def begin(self, frame: Frame) -> Aligned | None:
        """An operator or node begins: look what happens inside."""
        op_id = frame.recorded.op_id
        if frame.is_node:
            found = self._uses.of_node(op_id)
        else:
            outer = frame.is_operator and bool(self._tree.below(op_id))
            template = self._semantics.inside(frame.recorded.call) if outer else None
            found = None if template is None else self._tree.align(op_id, template)
        if found is not None:
            self._aligned[op_id] = found
            for one, place in found.places.items():
                self._owners[one].append((frame, place))
        return found

    def tensors(self, frame: Frame, wanted: Sequence[Wanted]) -> Iterator[Value | None]:
        """What an operator takes; None where it is not told."""
        owners = self._owners.get(frame.recorded.op_id)
        if not owners:
            return iter(())
        owner, place = owners[0]
        sources = matched(self._aligned[owner.recorded.op_id].template.ops[place], wanted)
        return (self._fitting(owner, source, one) for source, one in zip(sources, wanted, strict=True))

    def end(self, frame: Frame) -> None:
        """An operator ends: what it returned may be told as what another one takes."""
        for owner, place in self._owners.get(frame.recorded.op_id, ()):
            self._made[owner.recorded.op_id, place] = frame.outputs

    def returned(self, frame: Frame, place: int, wanted: Wanted) -> Value | None:
        """The tensor that a call returns at a place."""
        aligned = self._aligned.get(frame.recorded.op_id)
        if aligned is None or place >= len(aligned.template.returns):
            return None
        return self._fitting(frame, aligned.template.returns[place], wanted)

    def gradients(self, frame: Frame) -> list[tuple[Value, Value | None]] | None:
        """What a node returns: forward tensors with their gradients; None where that is not told."""
        aligned, forward = self._aligned.get(frame.recorded.op_id), self._forward(frame)
        if aligned is None or forward is None:
            return None
        pairs = [
            (self._at(forward.inputs, *slot), self._value(frame, source)) for slot, source in aligned.template.gradients
        ]
        return [(value, gradient) for value, gradient in pairs if value is not None]

    def _fitting(self, owner: Frame, source: Source | None, wanted: Wanted) -> Value | None:
        found = self._value(owner, source)
        return found if found is not None and wanted.fits(found) else None

    def _value(self, owner: Frame, source: Source | None) -> Value | None:
        if source is None:
            return None
        forward = self._forward(owner) if owner.is_node else owner
        if source.of == "made":
            listed = self._made.get((owner.recorded.op_id, source.place), ())
            return listed[source.entry] if source.entry < len(listed) else None
        if source.of == "gradient":
            return self._at(owner.inputs, source.place, 0)
        if forward is None:
            return None
        if source.of == "result":
            return forward.outputs[source.place] if source.place < len(forward.outputs) else None
        return self._at(forward.inputs, source.place, source.entry)

    def _forward(self, frame: Frame) -> Frame | None:
        number = frame.recorded.forward
        return None if number is None else self._frames.get(number)

    @staticmethod
    def _at(listed: Sequence[Sequence[Value]], place: int, entry: int) -> Value | None:
        return listed[place][entry] if place < len(listed) and entry < len(listed[place]) else None
