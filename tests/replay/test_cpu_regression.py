"""Records training steps of many model families on the CPU, rebuilds every call from the trace alone, runs it again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kerneldb.replay.resolve.schema import BARE_NAMES
from tests.replay import families, regression
from tests.replay.regression import Tally

torch = pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
pytest.importorskip("transformers", reason="transformers is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

FEW = ("gpt2", "t5", "mixtral", "resnet")
"""A decoder, an encoder with a decoder, experts and convolutions, with three optimizers; the others when all run."""
GATE = 0.999
MISSES_SHOWN = 30


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(
    scope="module",
    params=[pytest.param("few", marks=pytest.mark.thorough), pytest.param("others", marks=pytest.mark.volume)],
)
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[regression.Job]]:
    folder = tmp_path_factory.mktemp("families")
    found: dict[str, list[regression.Job]] = {}
    for family in families.FAMILIES:
        if (family.name in FEW) is not (request.param == "few"):
            continue
        jobs = regression.jobs_of(*families.record(family, folder))
        regression.rerun(jobs, folder)
        found[family.name] = jobs
    return found


def table(results: dict[str, list[regression.Job]]) -> str:
    lines = [regression.HEADER, *(regression.tally(name, jobs).line() for name, jobs in results.items())]
    everything = [job for jobs in results.values() for job in jobs]
    lines.append(regression.tally("all", everything).line())
    return "\n".join(["", *lines, *regression.misses(everything)[:MISSES_SHOWN]])


def total(results: dict[str, list[regression.Job]]) -> Tally:
    return regression.tally("all", [job for jobs in results.values() for job in jobs])


def test_rebuilt_calls_do_what_was_recorded(results: dict[str, list[regression.Job]]) -> None:
    """One test: recording and calling take longer than all that is asked of them, and each worker would do it."""
    check_enough_was_recorded(results)
    check_calls_are_rebuilt_and_called(results)
    check_overloads_are_those_of_the_execution_trace(results)
    check_reruns_make_the_same_child_calls(results)
    check_tensor_lists_have_the_dtypes_of_the_execution_trace(results)


def check_enough_was_recorded(results: dict[str, list[regression.Job]]) -> None:
    assert len(results) in {len(FEW), len(families.FAMILIES) - len(FEW)}
    assert all(regression.tally(name, jobs).total > 500 for name, jobs in results.items()), table(results)
    unknown = {job.spec.call.op for jobs in results.values() for job in jobs if not job.executed}
    assert unknown <= set(BARE_NAMES), "calls without a schema in the Execution Trace"


def check_calls_are_rebuilt_and_called(results: dict[str, list[regression.Job]]) -> None:
    found = total(results)
    assert found.called >= GATE * found.total, table(results)
    assert found.leaf_called >= GATE * found.leaf, table(results)


def check_overloads_are_those_of_the_execution_trace(results: dict[str, list[regression.Job]]) -> None:
    found = total(results)
    assert found.overload >= GATE * found.overload_known, table(results)


def check_reruns_make_the_same_child_calls(results: dict[str, list[regression.Job]]) -> None:
    found = total(results)
    assert found.children >= GATE * found.total, table(results)
    assert found.leaf_children >= GATE * found.leaf, table(results)


def check_tensor_lists_have_the_dtypes_of_the_execution_trace(results: dict[str, list[regression.Job]]) -> None:
    listed = [job for jobs in results.values() for job in jobs if "TensorList" in (job.spec.call.input_dtypes or "")]
    wrong = [str(job.spec.call) for job in listed if not job.same_list_dtypes]
    assert len(listed) > 20, [str(job.spec.call) for job in listed]
    assert wrong == []
