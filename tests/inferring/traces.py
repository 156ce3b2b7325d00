"""Small sequences in the shape of real ones: the kernels of a decoder layer as an H200 ran them."""

from __future__ import annotations

from kerneldb.replay.plan.unknowns import Device, Kind, Sequence

H200 = Device("NVIDIA H200", "NVIDIA", "sm_90", 132, 4800.0, {"fp16": 989.0, "fp32": 67.0})
CONFIG = {"hidden_size": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880}

HALF_TWO = "std::array<char*, 2ul>"
HALF_THREE = "std::array<char*, 3ul>"
ADD = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::Half>, "
    f"{HALF_THREE} >(int, at::native::CUDAFunctor_add<c10::Half>, {HALF_THREE})"
)
TANH = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::tanh_kernel_cuda(at::TensorIteratorBase&)::"
    "{lambda()#2}::operator()() const::{lambda()#3}::operator()() const::{lambda(c10::Half)#1}, "
    f"{HALF_TWO} >(int, {HALF_TWO})"
)
MASK_ADD = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add"
    "<c10::Half> >(at::TensorIteratorBase&, at::native::CUDAFunctor_add<c10::Half> const&)::{lambda(int)#1}>(int)"
)
SOFTMAX = (
    "void (anonymous namespace)::softmax_warp_forward<c10::Half, float, float, 10, false, false>"
    "(float*, c10::Half const*, int, int, int, bool const*, int, bool)"
)
NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::Half, float, false>"
    "(int, float, c10::Half const*, c10::Half const*, c10::Half const*, float*, float*, c10::Half*)"
)
GATHER = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)"
LINEAR = "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_bias_TNT"
VALUES = "nvjet_sm90_hsh_64x512_64x2_1x2_h_bz_coopB_NNT"

FILL = Kind("fill", "Memset (Device)", "memset", bytes=4)


def kernel(name: str, grid: tuple[int, int, int], block: tuple[int, int, int] = (128, 1, 1)) -> Kind:
    """A launch for which a call is wanted."""
    return Kind(f"{name}{grid}", name, "kernel", grid, block, shared_bytes=0, wanted=True)


def product(name: str) -> Kind:
    """A persistent matrix product: its grid says nothing of its size."""
    return kernel(name, (2, 66, 1), (384, 1, 1))


def layer() -> list[tuple[Kind, int]]:
    """A layer of BLOOM-560M over 8 × 1024 tokens, with the durations recorded on an H200 in nanoseconds."""
    norm, add = kernel(NORM, (8192, 1, 1), (32, 4, 1)), kernel(ADD, (8192, 1, 1))
    linear = product(LINEAR)
    return [
        (norm, 20672), (FILL, 736), (linear, 72528),
        (kernel(MASK_ADD, (262144, 1, 1)), 371486), (kernel(SOFTMAX, (32768, 1, 1), (32, 4, 1)), 314446),
        (product(VALUES), 82656), (linear, 25920), (add, 11616),
        (norm, 20864), (FILL, 736), (linear, 96000), (kernel(TANH, (32768, 1, 1)), 33216), (linear, 88783),
        (add, 11584),
    ]  # fmt: skip


def sequence(launches: list[tuple[Kind, int]]) -> Sequence:
    """The launches one after another, on an H200."""
    kinds = tuple(dict.fromkeys(kind for kind, _ in launches))
    order = tuple(kinds.index(kind) for kind, _ in launches)
    durations = tuple(duration for _, duration in launches)
    starts = tuple(sum(durations[:place]) for place in range(len(durations)))
    return Sequence("test", H200, kinds, order, durations, starts, (None,) * len(order))


def prefill(layers: int = 3) -> Sequence:
    """Token lookup and layers."""
    return sequence([(kernel(GATHER, (8192, 1, 1)), 9248), *(layer() * layers)])
