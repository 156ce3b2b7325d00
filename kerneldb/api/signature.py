"""The page about one signature."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
from typing import TYPE_CHECKING, Any

from kerneldb.api.queries import ask, require_traces
from kerneldb.errors import UsageError
from kerneldb.output.text import escape
from kerneldb.shell import Name, kerneldb, valued

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kerneldb.warehouse import Warehouse

CANDIDATES = 10
"""Signatures that the message about an ambiguous text lists."""

SECTIONS = {
    "identity": ("kind", "level", "name", "demangled", "short_name", "match_name", "launch_key"),
    "name": (
        *(
            "category",
            "category_source",
            "family",
            "library",
            "operation",
            "dtype",
            "dtype_source",
            "dtypes",
            "name_arch",
            "tile_m",
            "tile_n",
            "tile_k",
        ),
        *(
            "pipeline_stages",
            "cluster",
            "layout",
            "split_k",
            "epilogue",
            "vector_width",
            "template",
            "head_dim",
            "direction",
        ),
        "decoded",
    ),
    "operator call": ("op", "input_dims", "input_strides", "input_dtypes", "scalars", "extra"),
    "launch": ("grid", "block", "total_blocks", "threads_per_block", "bytes", "copy_kind"),
    "work": (
        *("gemm_m", "gemm_n", "gemm_k", "gemm_batch", "numel", "dims_source", "flops", "moved_bytes", "work_method"),
    ),
}
JSON_FIELDS = frozenset({"input_dims", "input_strides", "input_dtypes", "scalars", "extra", "decoded"})


@dataclasses.dataclass(frozen=True, slots=True)
class SignaturePage:
    """Sections of fields about the signature itself, then tables.

    The tables: times per trace and phase, lines and modules that launch it, counters (its own, or those of matches),
    what bounds it, what the rules of Nsight Compute say of it, and matches.
    """

    signature_id: str
    sections: dict[str, dict[str, Any]]
    tables: dict[str, list[dict[str, Any]]]

    def as_dict(self) -> dict[str, Any]:
        """The page as one mapping, with recorded JSON texts parsed."""
        sections = {title: dict(fields) for title, fields in self.sections.items()}
        for fields in sections.values():
            for key in JSON_FIELDS & fields.keys():
                with contextlib.suppress(json.JSONDecodeError, TypeError):  # NULL, or a text that was cut off
                    fields[key] = json.loads(fields[key])
        return {"signature_id": self.signature_id, **sections, **self.tables}


def page(warehouse: Warehouse, text: str, traces: Sequence[str] = ()) -> SignaturePage:
    """The page of the signature that `text` means (see `find`), with its times in `traces` (all where empty)."""
    signature_id = find(warehouse, text, traces)
    wanted = {"signature_id": signature_id}
    (found,) = ask(warehouse, "signature", wanted)
    sections = {title: {key: found.get(key) for key in keys} for title, keys in SECTIONS.items()}
    counters = ask(warehouse, "ncu_signature_counters", wanted)
    measured = sorted({signature for row in counters for signature in row.pop("measured_ids")})
    tables = {
        "times": ask(warehouse, "signature_times", wanted | {"traces": list(traces) or None}),
        "launched from": ask(warehouse, "signature_places", wanted | {"traces": list(traces) or None}),
        "counters": counters,
        "bounds": ask(warehouse, "bounds_signature", {"signatures": measured}) if measured else [],
        "rules": ask(warehouse, "ncu_rules_signature", {"signatures": measured}) if measured else [],
        "matches": ask(warehouse, "signature_matches", wanted),
    }
    return SignaturePage(signature_id, sections, tables)


def _named(row: Mapping[str, Any]) -> str:
    """A signature in a list: those of one kernel differ by operator and grid."""
    grid = f"grid {row['grid']}" if row["grid"] else None
    return "  " + "  ".join(escape(part) for part in (row["signature_id"], row["kernel"], row["op"], grid) if part)


def find(warehouse: Warehouse, text: str, traces: Sequence[str] = ()) -> str:
    """The signature whose id starts with `text`, or whose kernel is named so, of those in `traces` (all where empty).

    Raises UsageError unless it is one, and for an unknown trace.
    """
    require_traces(warehouse, traces)
    within = {"traces": list(traces) or None}
    found = ask(warehouse, "signature_ids", {"text": text, **within})
    if not found:
        kernels = {row["kernel"] or "" for row in ask(warehouse, "signature_ids", {"text": "", **within})}
        near = "\n".join(f"  {escape(name)}" for name in difflib.get_close_matches(text, kernels, 3, 0.4))
        if {"name": text} in ask(warehouse, "trace_names"):
            remedies = kerneldb("why", Name(text)), kerneldb("top", *valued("--trace", text))
            raise UsageError(f"{text} is a trace, not a kernel: {', '.join(remedies)}")
        of = f" of {', '.join(traces)}" if traces else ""
        message = f"no kernel{of} has {text!r} in its name, and no signature id starts with it; " + (
            f"near names:\n{near}" if near else "kerneldb top --by signature lists them"
        )
        raise UsageError(message)
    if len(found) > 1:
        shown = "\n".join(_named(row) for row in found[:CANDIDATES])
        more = "\n  …" if len(found) > CANDIDATES else ""
        message = f"{len(found):,} signatures match {text!r}; give the id of one, most time first:\n{shown}{more}"
        raise UsageError(message)
    return str(found[0]["signature_id"])
