from __future__ import annotations

import pytest

from kerneldb.replay.routes.base import compare as compare_operations
from kerneldb.replay.routes.grades import compare
from kerneldb.replay.wire.plan import Item, PlannedKernel
from kerneldb.replay.wire.results import Activity, Grade, failure
from kerneldb.replay.worker.profiling import Operation
from tests.replay.specs import op_call, spec, tensor
from tests.replay_worker.plans import ADD, GEMM, OTHER_TILE, copy, kernel

MANGLED = "_ZN2at6native13reduce_kernelILi512EEEvi"
DEMANGLED = "void at::native::reduce_kernel<512>(int)"


def seen(name: str = GEMM, grid: tuple[int, ...] | None = (4, 1, 1), shared: int | None = 1024) -> Activity:
    return Activity("kernel", name, 100, grid, (128, 1, 1), shared)


def test_same_launch_is_l0() -> None:
    match = compare([kernel()], [seen()])
    assert (match.grade, match.kernels[0].grade, match.kernels[0].unknown) == (Grade.L0, Grade.L0, ())


def test_what_calls_below_launched_is_not_extra() -> None:
    """It stands for one launch each, as it was, and for no planned kernel of the same family."""
    match = compare([kernel()], [seen(ADD), seen()], below=[kernel(ADD)])
    assert (match.grade, match.extra) == (Grade.L0, ())
    assert len(compare([kernel()], [seen(ADD), seen(ADD), seen()], below=[kernel(ADD)]).extra) == 1
    assert len(compare([kernel()], [seen(ADD, (8, 1, 1)), seen()], below=[kernel(ADD)]).extra) == 1
    lost = compare([kernel()], [seen(OTHER_TILE)], below=[kernel(OTHER_TILE)])
    assert (lost.grade, lost.missing) == (Grade.L3, (kernel().name,))


def test_a_field_that_neither_side_has_is_listed() -> None:
    match = compare([kernel(shared=None)], [seen(shared=None)])
    assert (match.grade, match.kernels[0].unknown) == (Grade.L0, ("shared_bytes",))


@pytest.mark.parametrize(
    ("planned", "replayed", "reason"),
    [
        (kernel(), seen(grid=(8, 1, 1)), "other grid"),
        (kernel(), seen(shared=2048), "other shared_bytes"),
        (kernel(grid=None), seen(), "other grid"),
    ],
)
def test_other_launch_is_l1(planned: PlannedKernel, replayed: Activity, reason: str) -> None:
    match = compare([planned], [replayed])
    assert (match.grade, match.kernels[0].reason) == (Grade.L1, reason)


def test_names_that_only_another_tool_spells_alike_are_l1() -> None:
    other = ADD.replace("3ul", "3").replace("> >", ">>")
    match = compare([kernel(ADD)], [seen(other)])
    assert (match.grade, match.kernels[0].reason) == (Grade.L1, "other spelling of the name")


def test_a_mangled_name_is_the_name_it_stands_for() -> None:
    pytest.importorskip("cxxfilt", reason="cxxfilt is not installed")
    assert compare([kernel(MANGLED)], [seen(DEMANGLED)]).grade is Grade.L0


def test_other_tile_is_l2_and_other_family_l3() -> None:
    assert compare([kernel()], [seen(OTHER_TILE)]).grade is Grade.L2
    other = "cutlass_80_tensorop_f16_s16816gemm_f16_64x64_32x6_tn_align8"
    assert compare([kernel()], [seen(other)]).grade is Grade.L3


def test_missing_and_extra_kernels_hold_the_call_at_l3() -> None:
    match = compare([kernel(), kernel(ADD, ordinal=1)], [seen(), seen("void other_kernel()")])
    assert [one.grade for one in match.kernels] == [Grade.L0, Grade.L4]
    assert (match.grade, match.missing) == (Grade.L3, (ADD,))
    assert [one.name for one in match.extra] == ["void other_kernel()"]


def test_equal_kernels_pair_in_call_order_and_exact_launches_first() -> None:
    planned = [kernel(grid=(1, 1, 1)), kernel(grid=(2, 1, 1), ordinal=1)]
    match = compare(planned, [seen(grid=(2, 1, 1)), seen(grid=(1, 1, 1))])
    assert [one.place for one in match.kernels] == [1, 0]
    assert match.grade is Grade.L0


def test_copies_compare_bytes() -> None:
    name = "Memcpy HtoD (Pageable -> Device)"
    assert compare([copy(16)], [Activity("memcpy", name, 1, bytes=16)]).grade is Grade.L0
    assert compare([copy(16)], [Activity("memcpy", name, 1, bytes=32)]).grade is Grade.L1


def test_a_call_that_lacks_recorded_arguments_is_at_best_l2() -> None:
    assert compare([kernel()], [seen()], faithful=False).grade is Grade.L2


def test_failed_calls_carry_their_reason() -> None:
    result = failure(Item("a", "aten", None, (kernel(),)), "mixed", "out of memory")
    assert (result.grade, result.kernels[0].grade, result.kernels[0].reason) == (Grade.L4, Grade.L4, "out of memory")
    assert result.missing == (kernel().name,)


def test_operators_on_the_cpu() -> None:
    matrix = tensor([2, 3])
    below = op_call("aten::mm", matrix, tensor([3, 4]))
    recorded = spec("aten::matmul", matrix, tensor([3, 4]), below=[below, op_call("aten::view", matrix)])
    dims, dtypes = [[2, 3], [3, 4]], ["float", "float"]
    root = Operation("aten::matmul", 0, dims, dtypes)
    assert compare_operations(recorded, [root, Operation("aten::mm", 1, dims, dtypes)]) is Grade.L0
    assert compare_operations(recorded, [root, Operation("aten::mm", 1, [[2, 3], [3, 5]], dtypes)]) is Grade.L1
    assert compare_operations(recorded, [root]) is Grade.L3
