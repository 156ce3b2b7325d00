"""One small input per reader, each with one good, one negative and one absurd duration, made by hand."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from typing import TYPE_CHECKING

from tests.ingest.traces import T0, Trace, kineto
from tests.ncu.reading import page, row
from tests.nsys import exports
from tests.nsys.test_exported import parquet_of
from tests.nvprof.test_nvprof import HEADER, PREAMBLE, UNITS
from tests.rocprof.databases import Kernel, Process, rocpd, views
from tests.rocprof.formats import write_csv, write_json
from tests.rocprof.test_others import OPS, RPD

if TYPE_CHECKING:
    from pathlib import Path

DAY_NS = 86_400 * 10**9
LONG_NS = 8 * DAY_NS
GOOD_NS = 5_000
START_NS = 1_000_000_000_000
KERNEL = Kernel("gemm", (256, 1, 1), (64, 1, 1), [])
BOTH = {"launch with a negative duration": 1, "launch longer than 7 days": 1}


@dataclasses.dataclass(frozen=True)
class Input:
    """Files of one trace, what the report must say was refused, and the window that the good times span."""

    paths: list[Path]
    refused: dict[str, int]
    window: tuple[int | None, int | None]


def pytorch(folder: Path) -> Input:
    trace = Trace()
    for number, took in enumerate((GOOD_NS, -7_000, LONG_NS)):
        at = T0 + 1_000_000 * number
        trace.op("aten::mm", at, took, {"External id": 10 + number})
        trace.api("cudaLaunchKernel", at + 100, took, number + 1)
        trace.kernel("gemm", at + 500_000, took, number + 1)
        trace.note("step", at, took)
    path = folder / "trace.json"
    path.write_text(kineto(trace), encoding="utf-8")
    whats = ("launch", "operator", "API call", "range")
    refused = {f"{what} {why}": 1 for what in whats for why in ("with a negative duration", "longer than 7 days")}
    return Input([path], refused, (T0, T0 + 2_500_000))


def _export(path: Path) -> Path:
    kernels = [
        exports.Kernel(1_000_000 * number, took, exports.ADD, (1, 1, 1), (32, 1, 1), number)
        for number, took in enumerate((GOOD_NS, -7_000, LONG_NS), start=1)
    ]
    calls = [
        exports.Call(900_000 * number, took, "cudaLaunchKernel_v7000", number)
        for number, took in enumerate((GOOD_NS, -7_000, LONG_NS), start=1)
    ]
    ranges = [
        exports.Range(800_000, 2_000_000, "good"),
        exports.Range(850_000, 840_000, "backward"),
        exports.Range(860_000, 860_000 + LONG_NS, "long"),
    ]
    return exports.build(path, kernels=kernels, memory=[], calls=calls, ranges=ranges)


def _of_export(paths: list[Path]) -> Input:
    whats = ("launch", "API call", "range")
    refused = {f"{what} {why}": 1 for what in whats for why in ("with a negative duration", "longer than 7 days")}
    return Input(paths, refused, (900_000, 3_000_000))


def nsys_sqlite(folder: Path) -> Input:
    return _of_export([_export(folder / "small.sqlite")])


def nsys_parquetdir(folder: Path) -> Input:
    database = _export(folder / "small.sqlite")
    place = parquet_of(database, folder / "small_pqtdir")
    database.unlink()
    return _of_export([place])


def nsys_gpu_trace(folder: Path) -> Input:
    head = (
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
        "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name"
    )
    rows = [
        f"{1_000 * number},{took},{number},1,1,1,32,1,1,32,0.000,0.000,,,,,H100 (0),1,7,gemm"
        for number, took in enumerate((GOOD_NS, -700, "1e30"), start=1)
    ]
    path = folder / "small_cuda_gpu_trace.csv"
    path.write_text("\n".join([head, *rows, ""]), encoding="utf-8")
    return Input([path], BOTH, (1_000, 6_000))


def nsys_kern_exec_trace(folder: Path) -> Input:
    head = (
        "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),"
        "PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name"
    )
    rows = [
        f"{1_000 * number},{call},,,{1_000 * number + 500},{took},9,7,7,0,cudaLaunchKernel,1 1 1,32 1 1,gemm"
        for number, (took, call) in enumerate(((GOOD_NS, 100), (-700, -100), (LONG_NS, LONG_NS)), start=1)
    ]
    path = folder / "small_cuda_kern_exec_trace.csv"
    path.write_text("\n".join([head, *rows, ""]), encoding="utf-8")
    calls = {"launching call with a negative duration": 1, "launching call longer than 7 days": 1}
    return Input([path], {**BOTH, **calls}, (1_500, 6_500))


def nvprof(folder: Path) -> Input:
    rows = [
        f'0.{number}00000,{took},1,1,1,32,1,1,32,0,0,,,,,"TITAN Xp (1)","1","7","step(int) [{number}]"'
        for number, took in enumerate(("0.005", "-0.007", "1" + "0" * 30), start=1)
    ]
    path = folder / "run.csv"
    path.write_text(PREAMBLE + "\n".join((HEADER, UNITS, *rows)) + "\n", encoding="utf-8")
    return Input([path], BOTH, (100_000_000, 300_000_000))


def ncu(folder: Path) -> Input:
    rows = [
        row("Duration", "nsecond", took, launch=number)
        for number, took in enumerate((f"{GOOD_NS}", "-7000", f"{LONG_NS}"))
    ]
    path = folder / "page.csv"
    path.write_text(page(*rows), encoding="utf-8")
    return Input([path], BOTH, (None, None))


def _rocpd(path: Path) -> Path:
    with rocpd(path) as connection:
        process = Process(connection)
        symbol = process.symbol(KERNEL)
        for number, took in enumerate((GOOD_NS, -7_000, LONG_NS)):
            at = START_NS + 1_000_000 * number
            process.region("HIP_RUNTIME_API_EXT", "hipModuleLaunchKernel", at - 9_000, at - 9_000 + took, 100 + number)
            process.dispatch(KERNEL, symbol, at, took, 100 + number)
            process.region(
                "MARKER_CORE_RANGE_API", "roctxRangePush", at, at + took, 200 + number, extdata='{"message": "step"}'
            )
        views(connection, [process.suffix])
    return path


def _of_rocpd(paths: list[Path]) -> Input:
    whats = ("launch", "API call", "range")
    refused = {f"{what} {why}": 1 for what in whats for why in ("with a negative duration", "longer than 7 days")}
    return Input(paths, refused, (START_NS - 9_000, START_NS + 2_000_000))


def rocpd_database(folder: Path) -> Input:
    return _of_rocpd([_rocpd(folder / "run.db")])


def rocprof_csv(folder: Path) -> Input:
    return _of_rocpd(write_csv(_rocpd(folder / "run.db"), folder, "run"))


def rocprof_json(folder: Path) -> Input:
    return _of_rocpd([write_json(_rocpd(folder / "run.db"), folder / "run_results.json")])


def rocprof_v1(folder: Path) -> Input:
    path = folder / "results.db"
    connection = sqlite3.connect(path)
    connection.execute(OPS)
    connection.execute('CREATE TABLE KERN ("Index" INTEGER, KernelName TEXT)')
    connection.execute("CREATE TABLE HIP (BeginNs INTEGER, EndNs INTEGER, pid INTEGER, tid INTEGER, Name TEXT)")
    rows = [
        (START_NS + number, START_NS + number + took, 0, 1, "spin(int)", 7, 7, "", 2, number, "", 0)
        for number, took in enumerate((GOOD_NS, -7_000, LONG_NS))
    ]
    connection.executemany("INSERT INTO OPS VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", rows)
    connection.commit()
    connection.close()
    return Input([path], BOTH, (START_NS, START_NS + GOOD_NS))


def rocprof_v1_json(folder: Path) -> Input:
    events = [
        {
            "ph": "X",
            "name": "k(int)",
            "args": {
                "BeginNs": f"{START_NS + number}",
                "EndNs": f"{START_NS + number + took}",
                "dev-id": "0",
                "queue-id": "3",
                "pid": "7",
                "tid": "8",
                "Name": "k(int)",
            },
        }
        for number, took in enumerate((GOOD_NS, -7_000, LONG_NS))
    ]
    path = folder / "results.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return Input([path], BOTH, (START_NS, START_NS + GOOD_NS))


def rpd(folder: Path) -> Input:
    path = folder / "trace.rpd"
    connection = sqlite3.connect(path)
    connection.executescript(RPD)
    connection.execute("DELETE FROM rocpd_op WHERE id > 3")
    connection.execute("DELETE FROM rocpd_api WHERE id > 4")
    connection.execute("UPDATE rocpd_op SET end = start + ? WHERE id = 1", (GOOD_NS,))
    connection.execute("UPDATE rocpd_op SET end = start - 5 WHERE id = 2")
    connection.execute("UPDATE rocpd_op SET end = start + ? WHERE id = 3", (LONG_NS,))
    connection.execute("UPDATE rocpd_api SET end = start - 1 WHERE id IN (1, 4)")
    connection.commit()
    connection.close()
    more = {"API call with a negative duration": 1, "range with a negative duration": 1}
    return Input([path], {**BOTH, **more}, (90, 200 + GOOD_NS))


LAUNCHES = (
    *(pytorch, nsys_sqlite, nsys_parquetdir, nsys_gpu_trace, nsys_kern_exec_trace, nvprof, ncu),
    *(rocpd_database, rocprof_csv, rocprof_json, rocprof_v1, rocprof_v1_json, rpd),
)


def nsys_sums(folder: Path) -> Path:
    head = (
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        "50.0,15000,3,5000.0,5000.0,4000,6000,1000.0,good\n"
        "50.0,-15000,3,-5000.0,-5000.0,-6000,-4000,1000.0,backward\n"
        f"50.0,{3 * LONG_NS},3,{LONG_NS}.0,{LONG_NS}.0,{LONG_NS},{LONG_NS},0.0,long\n"
    )
    path = folder / "small_cuda_gpu_kern_sum.csv"
    path.write_text(head, encoding="utf-8")
    return path


def nvprof_sums(folder: Path) -> Path:
    text = (
        '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,us,,us,us,us,\n'
        '"GPU activities",90.0,15.0,3,5.0,4.0,6.0,"good"\n'
        '"GPU activities",10.0,-15.0,3,-5.0,-6.0,-4.0,"backward"\n'
        f'"GPU activities",10.0,{3 * LONG_NS},3,{LONG_NS},{LONG_NS},{LONG_NS},"long"\n'
    )
    path = folder / "run.csv"
    path.write_text(PREAMBLE + text, encoding="utf-8")
    return path


def rocprof_sums(folder: Path) -> Path:
    text = (
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
        '"good",3,15000,5000.0,50,4000,6000,1000\n'
        '"backward",3,-15000,-5000.0,50,-6000,-4000,1000\n'
        f'"long",3,{3 * LONG_NS},{LONG_NS},50,{LONG_NS},{LONG_NS},0\n'
    )
    path = folder / "x_kernel_stats.csv"
    path.write_text(text, encoding="utf-8")
    return path


SUMS = (nsys_sums, nvprof_sums, rocprof_sums)
