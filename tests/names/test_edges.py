"""Odd input: every text decodes, quickly, to something."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldb.names import CATEGORIES, decode, decode_many, demangle, match_name, short_name
from kerneldb.names.demangling import _pure_demangler, _with_stand_ins

FRAGMENTS = (
    "void ",
    "at::native::",
    "elementwise_kernel",
    "<",
    ">",
    "(",
    ")",
    ",",
    "{lambda(",
    "#1}",
    "[lambda(",
    " (instance 1)]",
    "::",
    "const ",
    "*",
    "&",
    "operator()",
    "operator ()",
    "unnamed>::",
    "<unnamed>::",
    "(int)",
    "4",
    "nvjet_",
    "Cijk_",
    "Ailk_Bljk_",
    "_MT",
    "x",
    "_",
    "cutlass_80_",
    "sm90_xmma_gemm_",
    "triton_poi_fused_",
    "'lambda'",
    "float",
    "ampere_",
    "s16816gemm",
    "99999999999",
    "é",
    "²",
    "\n",
    " ",
    "true",
    "kernel",
    "_ZN2at6native",
    ".kd",
    "[clone ",
)
REPEATED = (
    "(",
    "<",
    ")",
    ">",
    "a<",
    "(int)4,",
    "[lambda(",
    "{lambda()#1}",
    "'lambda1'(",
    "operator ",
    "x::",
    " ",
    "const ",
    "a(b",
    "Cat<unnamed>::",
    "_",
    "1x",
    "A_",
    "bf16",
    "_k",
    "add_mul_",
    "é",
    "BinaryFunctor<",
    "::",
    "&",
    "->",
    "-1,",
)
HEADS = (
    "",
    "void f<",
    "nvjet_",
    "Cijk_Ailk_Bljk_",
    "ampere_",
    "cutlass_80_tensorop_",
    "fmha_cutlassF_",
    "ncclKernel_",
    "sm80_xmma_gemm_",
    "triton_poi_fused_",
    "igemm_fwd_gtcx2_nhwc_",
    "fused_bias",
    "_ZN2at",
    "void at::native::elementwise_kernel<128, 4, ",
)


@pytest.mark.parametrize("name", ["", " ", "unknown", "kernel", "(((", ">>>)))", "a<b<c", "::", "void ", "élan<ü>"])
def test_meaningless_names_are_other(name: str) -> None:
    found = decode(name)
    assert found.category == "OTHER"
    assert found.library is None
    assert found.details == {}


FEW = {(HEADS[number * step % len(HEADS)], part) for step in (0, 1, 5) for number, part in enumerate(REPEATED)}
"""Every part behind no head and behind two others, and every head before some part."""


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.volume)], ids=["few", "all"])
def test_names_of_100_kilobytes_take_no_time(few: bool) -> None:
    slow = []
    for head in HEADS:
        for part in REPEATED:
            if few and (head, part) not in FEW:
                continue
            size = 100_000 if few and head in HEADS[:2] else 20_000
            name = head + part * (size // len(part))
            start = time.process_time()
            found = decode(name)
            if time.process_time() - start > 20:  # what is linear takes a tenth of a second, what is not takes minutes
                slow.append((head, part))
            assert len(found.short_name) <= 60
    assert slow == []


@pytest.mark.parametrize("head", HEADS)
def test_names_of_a_megabyte_take_no_time_and_stay_apart(head: str) -> None:
    name = head + "a<" * 500_000
    start = time.process_time()
    one, other = decode(name + "1"), decode(name + "2")
    assert time.process_time() - start < 20
    assert one.match_name != other.match_name
    assert len(one.match_name) < 100_000
    assert one.demangled == name + "1"


def test_numbers_beyond_any_limit() -> None:
    assert decode("nvjet_hsh_" + "9" * 5000 + "x8_64x16_2x1_v_bz_TNT").category == "GEMM"
    assert decode("f<'lambda" + "9" * 5000 + "'(int)>").category == "OTHER"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join), st.sampled_from(["kernel", "memcpy", "memset"]))
def test_any_text_decodes(name: str, kind: str) -> None:
    found = decode(name, kind)
    assert found.category in CATEGORIES
    assert len(found.short_name) <= 60
    if kind != "kernel":
        assert found.category == kind.upper()


def test_demangle() -> None:
    assert demangle("_Z3fooIfEvPT_") == "void foo<float>(float*)"
    assert demangle("_Z3fooIfEvPT_.kd") == "void foo<float>(float*)"
    assert demangle("_Z3fooIfEvPT_ [clone .kd]") == "void foo<float>(float*)"
    assert demangle("__Z3fooIfEvPT_") == "void foo<float>(float*)"
    assert demangle("nvjet_x") == "nvjet_x"
    assert demangle("_ZN2at6native") == "_ZN2at6native"
    assert demangle("_Zé") == "_Zé"


def test_demangle_names_bfloat16_of_clang() -> None:
    assert demangle("_Z1fIDF16bEvPT_") == "void f<__bf16>(__bf16*)"
    assert _with_stand_ins("_Z1fIDF16bEvPT_") == "void f<__bf16>(__bf16*)"


def test_pure_demangler_agrees_on_plain_symbols() -> None:
    demangle_purely = _pure_demangler()
    if demangle_purely is None:
        pytest.skip("itanium-demangler is not installed")
    assert demangle_purely("_Z3fooIfEvPT_").replace(" ", "") == "voidfoo<float>(float*)"
    assert demangle_purely("_Z") == "_Z"


def test_decode_many_keeps_order_and_kind() -> None:
    found = decode_many([("x", "memset"), ("nvjet_hsh_8x64_64x16_2x1_v_bz_TNN", "kernel"), ("x", "memcpy")])
    assert [one.category for one in found] == ["MEMSET", "GEMM", "MEMCPY"]
    assert decode_many([]) == []


def test_decoded_is_frozen() -> None:
    with pytest.raises(AttributeError):
        decode("x").category = "GEMM"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
            "at::native::GeluType)::{lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int)",
            "vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(T1::Params)",
            "cutlass_80_simt_sgemm_128x32_8x5_nn_align1",
        ),
        ("nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_bias_TNT", "nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_bias_TNT"),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, "
            "float, float>, unsigned int, float, 4, 4> >(int)",
            "reduce_kernel<512, 1, MeanOps>",
        ),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
    ],
)
def test_short_name(name: str, short: str) -> None:
    assert short_name(name) == short
    assert decode(name).short_name == short
    assert decode(name).match_name == match_name(name)


def test_a_symbol_cut_within_its_tile_keeps_what_it_says() -> None:
    found = decode("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x")
    assert (found.family, found.dtype, found.layout, found.tile_m) == ("xmma_gemm", "bf16", "tn", None)


NO_SYMBOLS = {
    "<script>alert(1)</script>": "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>": "<img src=x onerror=alert(1)>",
    "<b>bold</b>::x": "<b>bold</b>::x",
    "\x1b[31m red\x1b[0m": "\x1b[31m red\x1b[0m",
    "first\nnext": "first next",
    "hello world": "hello world",
    "first\n" + "x" * 80: "first " + "x" * 53 + "…",
}


@pytest.mark.parametrize("name", NO_SYMBOLS)
def test_a_text_that_is_no_symbol_keeps_its_words(name: str) -> None:
    assert short_name(name) == NO_SYMBOLS[name]
    assert match_name(name) == name


@pytest.mark.parametrize("name", ["void fused_bias", "static void fused_bias", "<unnamed>::fused_bias(int)"])
def test_a_name_without_parameters_still_loses_its_type(name: str) -> None:
    assert short_name(name) == "fused_bias"
