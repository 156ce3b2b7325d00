"""One kernel printed by several profilers has one match name; different kernels never share one."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldb.names import decode, match_name

GELU_KINETO = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
    "at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}::operator()() const::"
    "{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
    "at::native::GeluType)::{lambda()#2}::operator()() const::{lambda()#4}::operator()() const::"
    "{lambda(c10::BFloat16)#1}, std::array<char*, 2ul>)"
)
GELU_NSYS = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase &, "
    "at::native::GeluType)::[lambda() (instance 2)]::operator ()() const::[lambda() (instance 4)]::operator ()() const"
    "::[lambda(c10::BFloat16) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)"
)
GELU_NCU = (
    "void vectorized_elementwise_kernel<4, GeluCUDAKernelImpl(TensorIteratorBase &, GeluType)::[lambda() (instance 2)]"
    "::operator ()() lambda() (instance 4)]::operator ()() lambda(BFloat16) (instance 1)], array<char *, 2>>(int, T2, "
    "T3)"
)
MUL_KINETO = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, "
    "float, float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::"
    "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>"
    "(int, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::"
    "binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<float, float, float, "
    "at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1})"
)
MUL_NSYS = (
    "void at::native::elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl_nocast<at::native::"
    "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>>(at::TensorIteratorBase &, "
    "const T1 &)::[lambda(int) (instance 1)]>(int, T3)"
)
MUL_MANGLED = (
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_13BinaryFunctorIfffNS0_15"
    "binary_internal10MulFunctorIfEEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_"
)
SAME = {
    "gelu": (GELU_KINETO, GELU_NSYS, GELU_NCU),
    "mul": (MUL_KINETO, MUL_NSYS, MUL_MANGLED, f"{MUL_MANGLED}.kd", f"{MUL_KINETO} [clone .kd]"),
    "gemvx": (
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __half, __half, __half, float, false, "
        "true, true, false, 6, false, cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<__half const>, float> >"
        "(cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<__half const>, float>)",
        "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, int, __half, __half, __half, float, (bool)0, "
        "(bool)1, (bool)1, (bool)0, (int)6, (bool)0, cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<const "
        "__half>, float>>(T13)",
        "enable_if<!T7, void>::type kernel<int, int, __half, __half, __half, float, 0, 1, 1, 0, 6, 0, "
        "cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<const __half>, float>>(T13)",
    ),
    "cat": (
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>,"
        " unsigned int, 4, 64, 64>(char*)",
        "void at::native::<unnamed>::CatArrayBatchedCopy<at::native::<unnamed>::OpaqueType<(unsigned int)2>, unsigned "
        "int, (int)4, (int)64, (int)64>(T1 *)",
        "void unnamed>::CatArrayBatchedCopy<unnamed>::OpaqueType<2>, unsigned int, 4, 64, 64>(T1 *)",
    ),
    "llvm": ("f<g(T&)::'lambda0'(int)>(int)", "void f<g(T&)::{lambda(int)#2}>(int)"),
    "plain": ("saxpy(float, float const*, float*)", "void ::saxpy(float, const float *, float *)"),
    "descriptor": ("triton_poi_fused_add_0.kd", "triton_poi_fused_add_0"),
}
DIFFERENT = (
    ("f<4, float>(int)", "f<8, float>(int)"),
    ("f<float>(int)", "f<double>(int)"),
    ("f<true>(int)", "f<false>(int)"),
    ("f<-2>(int)", "f<2>(int)"),
    ("k<&(op_add(float, float)), float>(int)", "k<&(op_mul(float, float)), float>(int)"),
    ("f<g()::{lambda(int)#1}>(int)", "f<g()::{lambda(int)#2}>(int)"),
    ("f<g()::{lambda(float)#1}>(int)", "f<g()::{lambda(long)#1}>(int)"),
    ("f<g<A>(int)::{lambda()#1}>(int)", "f<g<B>(int)::{lambda()#1}>(int)"),
    ("f<float const*>(int)", "f<float*>(int)"),
    ("f<unsigned int>(int)", "f<int>(int)"),
    ("f<(Kind)0>(int)", "f<(Kind)1>(int)"),
    ("plain(float*)", "plain(double*)"),
    ("f<void (*)(int)>(int)", "f<void (*)(float)>(int)"),
)


@pytest.mark.parametrize("spellings", SAME.values(), ids=SAME.keys())
def test_spellings_of_one_kernel_join(spellings: tuple[str, ...]) -> None:
    assert len({match_name(spelling) for spelling in spellings}) == 1


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_kernels_stay_apart(one: str, other: str) -> None:
    assert match_name(one) != match_name(other)


def test_match_name_reads_well() -> None:
    assert match_name(MUL_NSYS) == (
        "elementwise_kernel<128,2,gpu_kernel_impl_nocast<BinaryFunctor<float,float,float,MulFunctor<float>>>"
        "::lambda(int)#1>"
    )
    assert match_name("Memcpy HtoD (Pinned -> Device)") == "Memcpy HtoD (Pinned -> Device)"


def names_from(trace_names: list[Any], *parts: str) -> set[str]:
    return {n.name for n in trace_names if n.kind == "kernel" and any(part in n.source for part in parts)}


def test_ncu_names_join_nsys_names(trace_names: list[Any]) -> None:
    ncu = names_from(trace_names, "kernel_00")
    nsys = {match_name(name) for name in names_from(trace_names, "dsocr_")}
    assert len(ncu) == 20
    assert [name for name in ncu if match_name(name) not in nsys] == []


def test_ncu_names_join_kineto_names(trace_names: list[Any]) -> None:
    """Of the 27 kernels that ncu saw in a decoder block, 22 occur in the recorded traces: all those must join."""
    ncu = names_from(trace_names, "h200-decoder-raw")
    kineto = {match_name(name) for name in names_from(trace_names, ".json")}
    left = {match_name(name).split("<")[0] for name in ncu if match_name(name) not in kineto}
    assert len(ncu) == 27
    assert {name.split("_")[0] for name in left} == {"nvjet", "splitKreduce", "cudnn"}
    assert sum(match_name(name) in kineto for name in ncu) == 22


def test_mangled_and_demangled_names_of_one_database_join(trace_names: list[Any]) -> None:
    printed = {match_name(name) for name in names_from(trace_names, "sqlite:demangledName")}
    mangled = {name for name in names_from(trace_names, "sqlite:mangledName") if name.startswith("_Z")}
    assert len(mangled) > 30
    assert [name for name in mangled if match_name(name) not in printed] == []


def test_no_two_names_of_one_trace_merge(trace_names: list[Any]) -> None:
    """Within one trace of one profiler two names are two kernels; overloads of one template are the known exception."""
    merged: list[tuple[str, str]] = []
    for source in {named.source for named in trace_names if named.kind == "kernel"}:
        seen: dict[str, str] = {}
        for name in sorted(names_from([n for n in trace_names if n.source == source], source)):
            other = seen.setdefault(match_name(name), name)
            if other != name:
                merged.append((source, decode(name).short_name))
    assert merged == []
