"""JSON that nests deeply is read, or refused with its depth: no event and no metadata is lost for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest import Options, convert, nested
from kerneldb.ingest.pytorch import native

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":5,"args":{"stream":7,"device":0%s}}'
HEAD = '{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"H100"%s}],"traceEvents":['
ROCPROF = '"BeginNs":"1000","EndNs":"2000","pid":"4","tid":"4","dev-id":"0","queue-id":"0","Name":"k"%s'
PLANE = '{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}}'
STREAM = '{"ph":"M","pid":1,"tid":3,"name":"thread_name","args":{"name":"Stream #3(Compute)"}}'
FUSION = '{"ph":"X","pid":1,"tid":3,"name":"fusion","ts":1,"dur":2,"args":{"hlo_module":"j","hlo_op":"fusion"%s}}'
PLACES = {
    "arguments.json": HEAD % "" + "\n" + KERNEL % "" + ",\n" + KERNEL % "%s" + ",\n" + KERNEL % "" + "\n]}",
    "only.json": HEAD % "" + KERNEL % "%s" + "]}",
    "devices.json": HEAD + KERNEL % "" + "]}",
    "behind.json": HEAD % "" + KERNEL % "" + "]%s}",
    "tree.hatchet": '[{"frame":{"name":"ROOT"},"metrics":{},"children":[{"frame":{"name":"k"},"metrics":'
    '{"count":1,"time (ns)":5%s},"children":[]}]}]',
    "line.chrome_trace": '{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":0,"dur":5,"tid":0,"args":'
    '{"call_stack":["ROOT","k"]%s}}]}',
    "jax.trace.json": '{"metadata":{"highres-ticks":true},"traceEvents":[' + f"{PLANE},{STREAM},{FUSION}" + "]}",
    "rocprof.json": '{"traceEvents":[{"ph":"X","name":"k","ts":1,"dur":1,"pid":6,"tid":0,"args":{' + ROCPROF + "}}]}",
    "rocprofv3_results.json": '{"rocprofiler-sdk-tool":[{"metadata":{"pid":1%s},"agents":[],"buffer_records":{}}]}',
}


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("place", PLACES)
def test_the_depth_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, opening: str, pure: bool
) -> None:
    if pure:
        monkeypatch.setenv(native.PURE, "1")
    path = tmp_path / place
    for levels in (100, 100_000):
        deep = opening * levels + "1" + ("]" if opening == "[" else "}") * levels
        path.write_text(PLACES[place] % f',"x":{deep}')
        if levels == 100:
            convert(path, tmp_path / "read", Options())
    with pytest.raises(UnreadableTraceError, match=r"nest 100,00\d levels deep, and fewer than") as caught:
        convert(path, tmp_path / "refused", Options())
    assert str(caught.value).startswith(str(path))


def test_brackets_in_strings_are_no_levels() -> None:
    assert nested.levels(rb'{"a]":[[1],"[[\"[[", {}]}') == 3
    assert nested.levels(rb'[[{"[[[[\"[[') == 3
    assert nested.levels(b'"\\') == nested.levels(b"") == 0
