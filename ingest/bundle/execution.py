"""The Execution Trace beside a PyTorch trace: the tensors of each operator, with the ids of their storages.

Format: `ExecutionTraceObserver` of torch (torch/csrc/profiler/standalone/execution_trace_observer.cpp), schema 1.1 and
later. A node has `inputs` and `outputs` with parallel lists `values`, `shapes`, `types` and `strides`; the value of a
tensor is `[tensor id, storage id, offset, elements, bytes of an element, device]`. Its attribute `rf_id` is the
"Record function id" of the operator in the trace.

Per operator two JSON texts are kept: for each argument null, a tensor `[storage, offset, dims, strides, dtype, device]`
or a list of them; and a list of the returned tensors.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from kerneldb.ingest.output import Report

TENSOR: Final = 6
LIST: Final = "GenericList["
UNDEFINED: Final = "nullptr"
SCHEMA: Final = {"record_function_id": pl.Int64, "inputs": pl.String, "outputs": pl.String}
DAMAGED: Final = "Execution Trace that cannot be read: tensors of the operators are not known"
ODD: Final = "operator of the Execution Trace in another form"


def op_tensors(path: Path, ops: pl.DataFrame, report: Report) -> pl.DataFrame:
    """Rows of `op_tensors` without trace_id, for operators `ops` (op_id, record_function_id)."""
    try:
        nodes = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())["nodes"]
        found = pl.DataFrame(list(_rows(nodes, report)), SCHEMA, orient="row")
    except (OSError, EOFError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        report.add("lost", DAMAGED, 1, str(error)[:120])
        return pl.DataFrame(schema={"op_id": pl.Int64, "inputs": pl.String, "outputs": pl.String})
    unique = found.unique("record_function_id", keep="none", maintain_order=True)
    return ops.join(unique, on="record_function_id").select("op_id", "inputs", "outputs")


def _rows(nodes: list[Any], report: Report) -> Iterator[tuple[int, str, str]]:
    for node in nodes:
        try:
            number = next((one["value"] for one in node.get("attrs", ()) if one["name"] == "rf_id"), None)
            if number is None:
                continue
            number = int(number)
            inputs = _entries(node["inputs"])
            outputs = [tensor for one in _entries(node["outputs"]) for tensor in _flat(one)]
        except (TypeError, ValueError, LookupError, AttributeError):
            report.add("lost", ODD, 1, str(node.get("name"))[:60] if isinstance(node, Mapping) else None)
            continue
        if outputs or any(inputs):
            yield number, _text(inputs), _text(outputs)


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _flat(entry: Any) -> list[Any]:
    if entry is None:
        return []
    return [entry] if entry and isinstance(entry[0], int) else [one for one in entry if one is not None]


def _entries(side: Mapping[str, Any]) -> list[Any]:
    strides = list(side.get("strides") or ())
    strides += [None] * (len(side["values"]) - len(strides))  # launches of Triton come without those of the last number
    return [_entry(*one) for one in zip(side["values"], side["shapes"], side["types"], strides, strict=True)]


def _entry(value: Any, shape: Any, kind: str, strides: Any) -> Any:
    if kind.startswith("Tensor("):
        return _tensor(value, shape, kind, strides)
    if not kind.startswith(LIST) or "Tensor(" not in kind:
        return None
    kinds = kind.removeprefix(LIST).removesuffix("]").split(",")
    steps = strides or [None] * len(value)
    return [_entry(*one) for one in zip(value, shape, kinds, steps, strict=True)]


def _tensor(value: Any, shape: list[int], kind: str, strides: list[int] | None) -> list[Any] | None:
    """A tensor; None for one without storage (undefined, sparse)."""
    dtype = kind.removeprefix("Tensor(").removesuffix(")")
    whole = isinstance(value, list) and len(value) == TENSOR and strides is not None and len(strides) == len(shape)
    if dtype.startswith(UNDEFINED) or not whole:
        return None
    assert strides is not None  # noqa: S101 (for the type checker)
    _, storage, offset, _, _, device = value
    return [int(storage), int(offset), [int(n) for n in shape], [int(n) for n in strides], dtype, str(device)]
