"""What a performance engineer would read as wrong or useless is not said: a small program for each kind of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kerneldb
from kerneldb.report import why, wording
from tests.conftest import made_once
from tests.why.causes import ALL_REDUCE, GEMM, US, Program, collective, late_rank, slow_gemm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kerneldb.api import Database
    from kerneldb.report.model import Advice
    from kerneldb.report.why import Verdict

MS = 1_000 * US
SHAPES = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"], "Concrete Inputs": ["", ""]}


def only_copies() -> Program:
    program = Program()
    for _ in range(30):
        program.copy("Memcpy HtoD (Pageable -> Device)", 600 * US, blocks=False)
        program.think(9 * MS)
    return program


def without_operator() -> Program:
    program = Program()
    for _ in range(30):
        program.kernel("foo_kernel(int)", 300 * US)
    return program


def unknown_kinds() -> Program:
    program = without_operator()
    for _ in range(10):
        program.kernel("bar_kernel(int)", 300 * US)
    return program


def with_operator() -> Program:
    program = Program()
    for _ in range(30):
        program.number += 1
        number = program.number + 1
        program.trace.op("aten::mm", program.host, 8 * US, {"External id": number, **SHAPES})
        program.host += US
        program.kernel(GEMM, 300 * US, details={"External id": number})
    return program


def experts() -> Program:
    """DeepEP's exchange, which no buckets of gradients hide."""
    program = Program()
    for _ in range(20):
        program.kernel(duration=200 * US)
        program.kernel("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(int)", 900 * US, stream=9)
    return program


def gradients() -> Program:
    program = Program()
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    for number in range(20):
        program.kernel(duration=200 * US)
        program.kernel(name, 900 * US, details=collective(number))
    return program


def first_use() -> Program:
    """All but a thousandth of the allocation is one call."""
    program = Program()
    for call in (347 * MS, MS // 2, MS // 2):
        program.kernel()
        program.think(300 * US)
        program.call("cudaMalloc", call, "aten::empty")
    program.kernel()
    return program


def attention() -> Program:
    """Attention by hand over 5,185 tokens: two batches of products around each softmax."""
    program = Program()
    shapes = {"Input Dims": [[12, 5185, 64], [12, 64, 5185]], "Input type": ["c10::BFloat16"] * 2}
    strides = {"Input Strides": [[331840, 64, 1], [331840, 5185, 1]], "Concrete Inputs": ["", ""]}
    for _ in range(12):
        program.number += 1
        number = program.number + 1
        program.trace.op("aten::bmm", program.host, 8 * US, {"External id": number, **shapes, **strides})
        program.host += US
        program.kernel(GEMM, 3 * MS, details={"External id": number})
        program.kernel("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false>(int)", MS)
    return program


def one_pause() -> Program:
    program = Program()
    for number in range(40):
        program.kernel(op="aten::mm")
        if number == 20:
            program.think(60 * MS)
    return program


def pauses_in_python() -> Program:
    """Forty pauses of 5 ms and one of 8, each within a frame of which a word ends in braces."""
    program = Program()
    for number in range(41):
        program.kernel(op="aten::mm")
        begun = program.host
        program.think(8 * MS if number == 20 else 5 * MS)
        program.frame("data.py(17): read_{n}", begun, program.host - begun)
    return program


def pauses_of_half_a_millisecond() -> Program:
    program = Program()
    for _ in range(40):
        program.kernel(op="aten::mm")
        program.think(700 * US)
    return program


def one_wait() -> Program:
    program = Program()
    for number in range(30):
        program.kernel()
        if number == 10:
            program.wait("aten::to", "train.py(3): step")
            program.think(2 * MS)
    return program


def steps(doing: str | None, *, recorded: bool = True) -> Program:
    """Each step ends with a wait in no operator and reads a value in another line; 5 ms of `doing` come after it."""
    program = Program()
    for _ in range(4):
        begun = program.host
        if doing:
            program.frame(doing, program.host, 5 * MS)
            program.frame("random.py(7): shuffle", program.host + US, 5 * MS - 2 * US)
        program.think(5 * MS)
        for _ in range(10):
            program.kernel(duration=MS)
        program.wait("aten::item", "train.py(71): loss")
        program.think(300 * US)
        program.kernel()
        program.call("cudaDeviceSynchronize", max(program.gpu - program.host, 0) + 3 * US)
        if recorded:
            program.frame("train.py(60): step", begun, program.host - begun)
    return program


def few() -> Program:
    """Four launches of a product, long after each other."""
    program = Program()
    for _ in range(4):
        program.kernel(duration=900 * US, op="aten::mm")
        program.think(950 * US)
    return program


def vectors() -> Program:
    program = Program()
    for _ in range(40):
        program.kernel("void gemvNSP_kernel<float, float, float, float, 1, 16, 4, 1024>(int)", 100 * US)
    return program


def host_only() -> Program:
    program = Program()
    for _ in range(30):
        program.call("cudaMalloc", 20 * US, "aten::empty")
    return program


PROGRAMS: dict[str, Callable[[], Program]] = {
    function.__name__: function
    for function in (
        only_copies, without_operator, unknown_kinds, with_operator, experts, gradients, first_use, attention,
        one_pause, pauses_in_python, pauses_of_half_a_millisecond, one_wait, few, vectors, host_only,
    )
} | {
    "loads": lambda: steps("data.py(17): next_batch"),
    "thinks": lambda: steps(None, recorded=False),
}  # fmt: skip


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    """Name of the program → the verdict on it."""

    def make(path: Path) -> None:
        folder = tmp_path_factory.mktemp("programs")
        for name, program in PROGRAMS.items():
            program().write(folder / f"{name}.json")
        slow_gemm(broken=True).write(folder / "vocabulary.json")
        kerneldb.open(path).ingest(folder)

    database = kerneldb.open(made_once(tmp_path_factory, "programs.duckdb", make))
    return {found.trace: found for found in why.verdicts(database, [*PROGRAMS, "vocabulary"])}


def piece(verdict: Verdict, rule: str) -> Advice:
    (found,) = (one for one in verdict.advice if one.rule == rule)
    return found


def test_of_a_trace_of_copies_nobody_says_what_the_gpu_did_between(verdicts: dict[str, Verdict]) -> None:
    found = verdicts["only_copies"]
    said = " ".join([found.headline(), *(one.sentence + one.evidence for one in found.advice)])
    assert [one.rule for one in found.advice] == ["exposed-copies"]
    assert found.headline().endswith("6.9 % copies, 93.1 % between them, of which nothing is known.")
    assert "kernel" not in said
    assert "nothing to run" not in said
    assert found.unknown == (why.NO_KERNELS,)


def test_of_a_trace_of_the_host_nobody_says_that_nothing_stands_out(verdicts: dict[str, Verdict]) -> None:
    assert verdicts["host_only"].unknown == (why.NO_WORK,)
    assert not verdicts["host_only"].has_kernels


def test_replay_is_named_for_what_it_can_run(verdicts: dict[str, Verdict]) -> None:
    assert "replay" not in piece(verdicts["without_operator"], "one-kernel").remedy
    assert "kerneldb replay runs it alone" in piece(verdicts["with_operator"], "one-kernel").remedy


def test_how_to_hide_communication_depends_on_the_collective(verdicts: dict[str, Verdict]) -> None:
    own = piece(verdicts["experts"], "exposed-communication")
    assert "bucket" not in own.remedy
    assert "experts" in own.remedy
    assert "20 times, up to 900 µs, all of it" in own.sentence
    assert "bucket_cap_mb" in piece(verdicts["gradients"], "exposed-communication").remedy


def test_a_first_use_needs_no_advice_about_loops(verdicts: dict[str, Verdict]) -> None:
    found = piece(verdicts["first_use"], "allocating")
    assert found.remedy == "A call of 347 ms is a first use (context, libraries): record after a warm-up."


def test_products_of_attention_are_not_padded_but_fused(verdicts: dict[str, Verdict]) -> None:
    rules = {one.rule for one in verdicts["attention"].advice}
    assert "attention-unfused" in rules
    assert "odd-gemm" not in rules


def test_vocabularies_are_padded_to_a_multiple_of_64(verdicts: dict[str, Verdict]) -> None:
    assert piece(verdicts["vocabulary"], "odd-gemm").remedy == "Pad 50257 to 50304."


def test_one_pause_is_told_as_one(verdicts: dict[str, Verdict]) -> None:
    assert "in one pause before nvjet" in piece(verdicts["one_pause"], "host-pauses").sentence
    found = piece(verdicts["one_wait"], "synchronising").sentence
    assert "in 1 call, cudaStreamSynchronize in aten::to at train.py:3 (step)" in found


def test_what_the_host_did_in_the_longest_pause_is_named(verdicts: dict[str, Verdict]) -> None:
    found = piece(verdicts["pauses_in_python"], "host-pauses")
    assert "which in the longest one was in read_{n} (data.py:17) for 7.8" in found.sentence
    assert found.remedy.startswith("Make read_{n} shorter, or move it off the thread that launches")
    assert "which" not in piece(verdicts["one_pause"], "host-pauses").sentence


def test_launching_less_often_is_no_remedy_for_pauses_longer_than_a_launch(verdicts: dict[str, Verdict]) -> None:
    found = piece(verdicts["pauses_of_half_a_millisecond"], "host-bound")
    assert found.remedy.startswith("Look at what the program does between these launches")


def test_what_the_host_did_after_a_wait_is_named_with_the_wait_before_it(verdicts: dict[str, Verdict]) -> None:
    """The wait for the value is the longer one; the other lasts 195 µs. shuffle is of Python's library."""
    found = piece(verdicts["loads"], "synchronising")
    place = "in 7 calls, mostly cudaStreamSynchronize in aten::item at train.py:71 (loss), and then spent "
    assert place + "14.4 ms (3 times, up to 4.80 ms) in next_batch (data.py:17) before it" in found.sentence
    assert found.remedy.startswith("Make next_batch shorter or move it off the thread that launches")
    assert "Keep the value on the GPU" in found.remedy
    assert "so that it overlaps" in found.remedy
    nothing = piece(verdicts["thinks"], "synchronising")
    assert "at train.py:71 (loss), and then was in no recorded call for 15.6 ms before" in nothing.sentence
    assert nothing.remedy.endswith("wait for it. Or make shorter what the program does there.")
    assert "not recorded" in nothing.evidence


def test_a_collective_that_waits_in_two_pieces_is_one(tmp_path: Path) -> None:
    """A kernel in the middle of the first of ten waits hides 100 µs of it."""
    waits, late = (late_rank(rank, broken=True) for rank in range(2))
    number = waits.call("cudaLaunchKernel", 4 * US)
    waits.trace.kernel(GEMM, waits.gpu - 13 * MS + 700 * US, 100 * US, number, None, stream=30)
    for rank, program in enumerate((waits, late)):
        program.write(tmp_path / f"rank-{rank}.json")
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(sorted(tmp_path.glob("*.json")), run="job")
    (verdict,) = why.verdicts(database, ["rank-0"])
    said = "This rank waited 8.90 ms (64 %) that no computation hides for other ranks, in 10 collectives, 100 % of it"
    assert piece(verdict, "late-rank").sentence.startswith(said)


def test_who_waits_for_a_rank_is_told_what_its_host_does(tmp_path: Path) -> None:
    for rank in range(2):
        program = late_rank(rank, broken=False)
        for number in range(10, 13):
            program.wait("aten::item", "train.py(71): loss")
            program.frame("data.py(17): next_batch", program.host, (1 + rank) * MS)
            program.think((1 + rank) * MS)
            program.kernel()
            program.kernel(ALL_REDUCE, 100 * US + MS * (1 - rank), details=collective(number))
        program.write(tmp_path / f"rank-{rank}.json")
    told = blame(tmp_path)
    assert "There, the host spends" in told
    assert told.endswith("ms in next_batch (data.py:17) after cudaStreamSynchronize.")


def test_who_waits_for_a_rank_that_computes_longer_is_told_so_and_not_what_its_host_does(tmp_path: Path) -> None:
    for rank in range(2):
        program = late_rank(rank, broken=True)
        program.wait("aten::item", "train.py(71): loss")
        program.frame("data.py(17): next_batch", program.host, 2 * MS)
        program.think(2 * MS)
        program.kernel()
        program.write(tmp_path / f"rank-{rank}.json")
    # Before the first of the ten nothing is known.
    said = "busy 8.10 ms longer before: slower kernels, or more of them (kerneldb diff rank-0 rank-1)."
    assert blame(tmp_path).endswith(said)


def blame(folder: Path) -> str:
    """What rank 0 is told of the rank that it waits for."""
    database = kerneldb.open(folder / "k.duckdb")
    database.ingest(sorted(folder.glob("*.json")), run="job")
    (verdict,) = why.verdicts(database, ["rank-0"])
    return piece(verdict, "late-rank").remedy


def test_a_trace_of_a_few_launches_is_about_what_ran(verdicts: dict[str, Verdict]) -> None:
    rules = [one.rule for one in verdicts["few"].advice]
    assert rules[0] == "one-kernel"
    assert rules[-1] == "host-late"


def test_shares_have_their_time(verdicts: dict[str, Verdict]) -> None:
    assert "take 4.00 ms (100 % of the GPU time)" in piece(verdicts["vectors"], "decode-gemv").sentence


def test_work_of_no_known_kind_is_named_by_its_kernel(verdicts: dict[str, Verdict]) -> None:
    found = piece(verdicts["unknown_kinds"], "computation").sentence
    assert "OTHER" not in found
    assert "kernels of other kinds 100 % (most in foo_kernel)." in found


def test_one_kernel_that_is_all_of_the_computation_is_told_once(verdicts: dict[str, Verdict]) -> None:
    assert [one.rule for one in verdicts["without_operator"].advice] == ["one-kernel"]
    assert {"one-kernel", "computation"} <= {one.rule for one in verdicts["unknown_kinds"].advice}


ROW: dict[str, Any] = {
    "reached_pct": None, "is_compute": None, "mean_ns": 1e6, "is_counted": True, "is_called": False, "size": None,
}  # fmt: skip


def test_where_counters_are_stored_nobody_is_told_to_record_them() -> None:
    words = wording.judged(ROW)
    assert "would say" not in words["sure"]
    assert "its counters are stored" in words["hint"]


def test_who_waits_in_a_copy_is_not_told_to_wait_for_events() -> None:
    alone = {"frame": None, "quiet_ns": None}
    assert "event" not in wording.waited({"call": "cudaMemcpyAsync", "op": None, **alone})["instead"]
    assert "event" in wording.waited({"call": "cudaStreamSynchronize", "op": None, **alone})["instead"]


def test_pauses_of_unknown_reason_have_no_evidence() -> None:
    (rule,) = (rule for rule in why.RULES if rule.name == "unattributed")
    assert rule.evidence == ""


ESTIMATES = """
    SELECT l.signature_id, l.launch_index, l.duration_ns, max(r.speedup_pct) AS pct
    FROM launches AS l
    LEFT JOIN ncu_rules AS r
        ON l.launch_index = r.launch_index AND r.rule = $rule AND r.short_name = $kernel AND r.speedup_kind = 'global'
    GROUP BY ALL
"""


@pytest.fixture
def profiled(shared_data: Path, tmp_path: Path) -> Database:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "ncu" / "h200-decoder-details.csv.gz")
    return database


def test_an_estimate_of_ncu_counts_for_the_launches_that_it_is_about(profiled: Database) -> None:
    (found,) = why.verdicts(profiled, ["h200-decoder-details"])
    first = piece(found, "ncu-rules")
    given = {"rule": first.row["rule"], "kernel": first.row["kernel"]}
    launches = profiled.sql(ESTIMATES, params=given).rows()
    advised = {row["signature_id"] for row in launches if row["pct"]}
    those = [row for row in launches if row["signature_id"] in advised]
    assert first.row["n"] == len(those)
    assert first.row["total_ns"] == sum(row["duration_ns"] for row in those)
    assert first.at_stake_ns == pytest.approx(
        sum((row["pct"] or 0) * row["duration_ns"] / 100 for row in those), rel=0.1
    )


def test_of_several_gpus_the_sum_and_the_time_of_one_are_told() -> None:
    verdict = why.Verdict("t", 2, 3 * MS, {"computation": 3 * MS}, (), ())
    said = "3.00 ms from the first launch to the last, added up over 2 GPUs (1.50 ms a GPU): 100.0 % computing."
    assert verdict.headline() == said
