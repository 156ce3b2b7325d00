"""Environments, command lines, accounts and user metadata stay out of the tables unless asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from kerneldb.ingest import Options
from tests.ingest.traces import everything, indented

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ingest.conftest import Convert
    from tests.ingest.conversion import Converted

SECRET = "hunter2-s3cret"  # noqa: S105
PRIVATE: dict[str, Any] = {
    "env": {"HF_TOKEN": SECRET, "PATH": "/home/me"},
    "environ": SECRET,
    "PT_PROFILER_JOB_NAME": SECRET,
    "username": SECRET,
    "command": f"python train.py --key {SECRET}",
    "command_line": f"python train.py --key {SECRET}",
    "cmdline": [SECRET],
    "argv": ["train.py", SECRET],
    "args": f"--api {SECRET}",
    "tw_job": SECRET,
    "mast_job_attempt_uuid": SECRET,
    "api_key": SECRET,
    "password": SECRET,
    "credentials": SECRET,
    "metadata": {"pip": [SECRET]},
    "my_note": SECRET,
    "config": {"wandb": {"login": SECRET}},
    "INFO": [f"INFO:2024 1:1 started as {SECRET}"],
    "WARNING": f"cannot open {SECRET}",
    "traceName": f"/home/{SECRET}/trace.json",
    "cwd": f"/home/{SECRET}",
    "working_dir": f"/home/{SECRET}",
    "hostname_alias": SECRET,
}


def texts(found: Converted) -> Iterator[tuple[str, str, str]]:
    """(table, column, text) of every text in every part, the manifest among them."""
    for table in found.manifest.parts:
        frame = found.table(table)
        for column in frame.select(pl.col(pl.String)):
            for text in column.drop_nulls():
                yield table, column.name, text
    yield "manifest", "trace", json.dumps(found.manifest.trace)


def leaks(found: Converted) -> set[tuple[str, str]]:
    return {(table, column) for table, column, text in texts(found) if SECRET in text}


def marked(value: Any, key: str) -> Any:
    """`value` with the secret of its own `key`."""
    return json.loads(json.dumps(value).replace(SECRET, f"{SECRET}-{key}-"))


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_private_metadata_stays_out(convert: Convert, behind: bool) -> None:
    trace = everything()
    (trace.behind if behind else trace.metadata).update({key: marked(value, key) for key, value in PRIVATE.items()})
    written = "\n".join(text for _, _, text in texts(convert(indented(trace))))
    assert {key for key in PRIVATE if f"{SECRET}-{key}-" in written} == set()


def test_all_of_it_at_once_in_a_file_to_repair(convert: Convert) -> None:
    """The repair of broken metadata and the examples of the report must not carry it either."""
    trace = everything()
    trace.metadata.update(PRIVATE)
    text = indented(trace).replace('"username": "', '"username": "the "great" ')
    found = convert(text)
    assert found.total("repaired") >= 1
    assert leaks(found) == set()


def test_kept_on_request_and_only_in_the_metadata(convert: Convert) -> None:
    trace = everything()
    trace.metadata.update(PRIVATE)
    found = convert(indented(trace), options=Options(keep_environment=True))
    assert leaks(found) == {("traces", "metadata"), ("manifest", "trace")}
    kept = json.loads(found.trace["metadata"])
    assert kept["env"] == PRIVATE["env"]
    assert kept["argv"] == PRIVATE["argv"]


def test_harmless_metadata_is_kept(convert: Convert) -> None:
    trace = everything()
    trace.metadata.update({"cupti_version": 26, "cuda_driver_version": 13000, "with_stack": 1, **PRIVATE})
    found = convert(indented(trace))
    kept = json.loads(found.trace["metadata"])
    assert {key: kept.get(key) for key in ("cupti_version", "cuda_driver_version", "with_stack", "record_shapes")} == {
        "cupti_version": 26,
        "cuda_driver_version": 13000,
        "with_stack": 1,
        "record_shapes": 1,
    }
    assert found.trace["tool_version"] == "CUPTI 26"
