"""Reports: the figures in them, that the page opens alone in a browser, and that names from traces do no harm there."""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kerneldb
from kerneldb.api import Database
from kerneldb.cli import cli
from kerneldb.errors import UsageError
from kerneldb.report import changes, charts, contents, counters, gather, html, markdown, model, why, wording
from kerneldb.report.advice import RULES
from kerneldb.report.asking import asking, named
from kerneldb.report.model import Chart, Column, Report, Section, Table
from kerneldb.report.wording import in_words
from tests.browser import CHROMIUM, needs_browser

pytestmark = pytest.mark.again

EVIL = "</script><script>window.evil = 1</script><img src=x onerror=alert(1)>"


def table(report: Report, caption: str) -> Table:
    found = [block for section in report.sections for block in section.blocks if block.caption == caption]
    (only,) = (block for block in found if isinstance(block, Table))
    return only


@pytest.fixture(scope="module")
def example_report(compared: Database) -> Report:
    return gather.single(compared, ["base"])


def test_shares_are_those_of_top(compared: Database, example_report: Report) -> None:
    top = compared.top(by="kernel", traces=["base"]).rows()
    shown = table(example_report, "Top kernels").rows
    assert [row["total_ns"] for row in shown] == [row["total_ns"] for row in top[: len(shown)]]
    assert shown[-1]["cumulative_pct"] == pytest.approx(sum(row["share_pct"] for row in shown))


def test_every_query_gives_the_rows_above_it(compared: Database, example_report: Report) -> None:
    for section in example_report.sections:
        for block in section.blocks:
            rows = compared.sql(block.sql).rows()
            assert not block.sql.startswith("-"), "an option for a shell"
            if isinstance(block, Table):
                assert len(rows) >= len(block.rows), block.caption
                assert all(map(alike, rows, block.rows)), block.caption
                assert bool(rows) == bool(block.rows)
            else:
                assert rows
        for piece in section.advice:
            assert len(compared.sql(piece.sql).rows()) == 1
            assert not piece.sql.startswith("-")


def test_what_is_asked_has_the_rows_of_what_is_shown(root: Path, tmp_path: Path) -> None:
    """On several GPUs, one of them unknown, with calls that were waited for."""
    database, fixtures = kerneldb.open(tmp_path / "k.duckdb"), root / "tests" / "fixtures"
    for name in ("stacks-memory-h200.json.gz", "graph-capture-h100.json.gz"):
        database.ingest(fixtures / name)
    database.sql("UPDATE launches SET device = nullif(launch_index % 3, 2)", write=True)
    for trace in (row["trace"] for row in database.traces().rows()):
        with asking(database) as one:
            ask = one.also({"trace": trace})
            for plan in (contents.IDLE, contents.WALL):
                rows, shown = ask.rows(plan.asked), database.sql(ask.sql(plan.query)).rows()
                assert len(rows) == len(shown), plan.query
                assert all(map(alike, rows, shown)), plan.query
                assert {row["device"] for row in rows} == {0, 1, None}
            assert any(row["waiting_call"] for row in ask.rows("idle_sums"))


def test_charts_have_words_for_who_cannot_see_them(example_report: Report) -> None:
    drawn = {b.caption: b for s in example_report.sections for b in s.blocks if isinstance(b, Chart)}
    top = table(example_report, "Top kernels").rows[0]
    words = html.words(drawn["Top kernels"])
    assert words.startswith("Top kernels: ")
    assert f"{top['kernel']} {top['share_pct']:.4g}" in words
    text = html.page(example_report)
    for chart in drawn.values():
        assert html.words(chart).split(":")[0] in text


def test_words_of_a_roofline_name_each_kernel_with_its_rate_in_units(example_report: Report) -> None:
    (drawn,) = (
        b for s in example_report.sections for b in s.blocks if isinstance(b, Chart) and b.caption == "Roofline"
    )
    most = max(drawn.spec["layer"][-1]["data"]["values"], key=lambda row: row["total_ns"])
    rate, intensity = most["flops_per_second"] / 1e12, most["intensity"]
    assert 1 < rate < 9.9
    assert 0.5 < intensity < 9.9
    first = html.words(drawn).split(": ", 2)[2]
    assert first.startswith(f"{most['kernel']}: {rate:.2f} TFLOP/s at {intensity:.2f} FLOP/byte, ")
    point = {"kernel": "a<b>", "compute_pct": 41.5, "memory_pct": 20.0, "bound": "compute"}
    spread = charts.scatter([point], ("memory_pct", "compute_pct"), ("% of memory", "% of compute"), "bound")
    assert html.words(Chart("Bounds", spread, "")).endswith("by % of compute and % of memory: a<b>: 41.5 20")


def test_a_dot_of_the_roofline_tells_shapes_and_where_its_bytes_are_from() -> None:
    point = {
        "kernel": "k", "category": "GEMM", "intensity": 2.0, "flops_per_second": 1e12, "total_ns": 5,
        "input_dims": "[[2, 4], [4, 8]]", "moved_bytes": 64.0, "modelled_bytes": 48.0, "method": "counters",
        "dtype": None,
    }  # fmt: skip
    roof = {"name": "r", "intensity": 1.0, "flops_per_second": 1e13}
    longer = {**point, "category": "GEMV", "total_ns": 6}
    dots = charts.roofline([point, longer], [roof])["layer"][-1]
    assert dots["encoding"]["color"]["scale"]["domain"] == ["GEMV", "GEMM"], (
        "the first colour has the most time, as in the timeline"
    )
    assert {tip["title"] for tip in dots["encoding"]["tooltip"]} >= {
        "shapes", "bytes of a launch", "bytes by the shapes", "work and bytes from", "GPU time",
    }  # fmt: skip
    assert dots["data"]["values"][0]["time"] == "5 ns"
    assert "type" not in {tip["title"] for tip in dots["encoding"]["tooltip"]}


def test_sections_have_names_of_their_own(compared: Database, example_report: Report) -> None:
    both = changes.comparison(compared, "base", "slower", 0.03)
    for report in (example_report, both):
        titles = [section.title for section in report.sections]
        assert len(set(titles)) == len(titles)
    captions = [block.caption for block in both.sections[0].blocks]
    assert captions == ["Before: base", "After: slower"]
    assert html.anchors(["Roofline", "A b: c", "roofline", "Roofline"]) == [
        "roofline", "a-b-c", "roofline--2", "roofline--3",
    ]  # fmt: skip


def test_advice_speaks_of_the_program_and_the_gpu() -> None:
    """No PyTorch where none ran, and no CUDA on a GPU of AMD."""
    for rule in RULES:
        for vendor in ("nvidia", "amd"):
            other = rule.advice(vendor, is_torch=False)
            own = re.sub(r"\{(hint|padded|side|late_rank|instead)\}", "", other)  # figures of its row
            assert not re.search(r"torch|autocast|\.item|non_blocking|scaled_dot|\{", own), rule.name
        for is_torch in (True, False):
            assert not re.search(r"CUDA|cuda|ncu|Nsight", rule.advice("amd", is_torch=is_torch)), rule.name
    waits = {rule.name: rule for rule in RULES}["stream-dependency"]
    assert "cudaStreamWaitEvent" in in_words(waits.evidence, "nvidia")
    between = {rule.name: rule for rule in RULES}["between-launches"]
    assert "torch.compile), a larger batch; CUDA graphs" in between.advice("nvidia", is_torch=True)
    assert "HIP graphs" in between.advice("amd", is_torch=False)


def test_few_launches_help_only_where_launching_takes_the_time() -> None:
    assert wording.launched({"mean_ns": 20_000.0})["hint"].startswith("Launch less often: {graphs}, torch.compile")
    assert "torch" not in wording.launched({"mean_ns": 20_000.0})["instead"]
    for hint in wording.launched({"mean_ns": 700_000.0}).values():
        assert hint.startswith("Look at what the program does between these launches")


def test_who_has_recorded_the_host_is_not_told_to() -> None:
    assert wording.unexplained({"has_calls": False})["hint"].startswith("Record the host, too")
    assert "Record" not in " ".join(wording.unexplained({"has_calls": True}).values())


@pytest.mark.thorough
def test_what_was_tried_in_a_step_and_pays_is_advice(example: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(example)
    (trace,) = database.sql("SELECT trace_id, name FROM traces").rows()
    (spent,) = database.sql("SELECT sum(duration_ns) AS ns FROM kernels").rows()
    gains = {"busy_gain": 0.25, "busy_gain_low": 0.24, "busy_gain_high": 0.26}
    row = {
        "run_id": "r",
        "trace_id": trace["trace_id"],
        "number": 2,
        "rewrite": "all accepted",
        "what": "compile",
        **gains,
    }
    for status, said in (("together", 1), ("rejected", 0)):
        database.warehouse.store_improvements([trace["trace_id"]], [{**row, "status": status}])
        found = [one for one in why.verdicts(database, [trace["name"]])[0].advice if one.rule == "improved"]
        assert len(found) == said
        assert all(one.at_stake_ns == pytest.approx(spent["ns"] / 4) for one in found)
        assert all("compile saves 25.0 % of its GPU time" in one.sentence for one in found)


def test_advice_fits_the_trace(shared_data: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "nsys" / "nsightful_power_iteration.sqlite")
    report = gather.single(database, ["nsightful_power_iteration"])
    remedies = {one.rule: one.remedy for section in report.sections for one in section.advice}
    # Each wait of 24 ms is longer than the pause after it, in which the program was in a range "IO 0" to "IO 43".
    assert remedies["synchronising"].startswith("Make IO … shorter")
    assert "Copy results later, and to pinned memory" in remedies["synchronising"]
    assert not any("torch" in remedy for remedy in remedies.values())


def test_rates_over_100_percent_are_kept_and_marked() -> None:
    column = Column("l2_hit_pct", "L2 hits", "percent", counters.HITS)
    rows = [{"l2_hit_pct": value} for value in (104.24, 100.04, 99.0, None)]
    shown = [model.shown(column, row["l2_hit_pct"]) for row in rows]
    assert shown == ["104.2 % *", "100 %", "99.0 %", "–"]
    made = Table("t", (column,), rows, "SELECT 1")
    assert model.notes(made) == [f"* over 100 %: {counters.HITS}"]
    assert model.notes(Table("t", (column,), rows[1:], "SELECT 1")) == []
    text = markdown.page(Report("r", "", (Section("s", (made,)),)))
    assert "104.2 % \\*" in text
    assert "over 100 %: the counters of a hit rate" in text


def test_a_word_is_explained_below_a_table_that_has_it() -> None:
    column = Column("cause", "cause", words=(("unsplit", "not told apart"),))
    for cause, notes in (("unsplit", ["unsplit: not told apart"]), ("transfer", [])):
        assert model.notes(Table("t", (column,), [{"cause": cause}], "SELECT 1")) == notes


@pytest.mark.thorough
def test_a_kernel_of_several_classes_is_told(shared_data: Path, tmp_path: Path) -> None:
    """One launch of the kernel that was profiled most often is given another SM throughput than was collected."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "ncu" / "h200-decoder-raw.csv.gz")
    caption = "Kernels with launches of several classes"
    assert table(gather.single(database, ["h200-decoder-raw"], "sm_dram"), caption).rows == []
    often = """
        SELECT signature_id, min(launch_index) AS launch_index, count(*) AS n, any_value(verdict) AS verdict
        FROM bounds WHERE rule = 'sm_dram' AND verdict <> 'compute' GROUP BY 1 ORDER BY n DESC, 1 LIMIT 1
    """
    (chosen,) = database.sql(often).rows()
    change = (
        "UPDATE metrics SET value = 99 WHERE launch_index = $index AND metric LIKE 'sm__throughput.avg.pct%elapsed'"
    )
    database.sql(change, {"index": chosen["launch_index"]}, write=True)
    report = gather.single(database, ["h200-decoder-raw"], "sm_dram")
    (row,) = table(report, caption).rows
    assert chosen["n"] > 2
    assert row["verdicts"] == f"{chosen['verdict']} {chosen['n'] - 1}, compute 1"
    assert (row["n"], row["compute_high"]) == (chosen["n"], 99)
    shares = table(report, "Classes by the rule sm_dram").rows
    assert sum(row["time_pct"] for row in shares if row["verdict"] != "all") == pytest.approx(100)


@pytest.mark.thorough
def test_what_the_rules_of_ncu_advise_is_shown(shared_data: Path, tmp_path: Path) -> None:
    """The most first; where a page has none of them there is no table of them."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    caption = "What the rules of Nsight Compute advise"
    database.ingest(shared_data / "ncu" / "h200-decoder-raw.csv.gz", run="raw")
    raw = gather.single(database, ["raw"])
    assert caption not in {block.caption for section in raw.sections for block in section.blocks}
    database.ingest(shared_data / "ncu" / "h200-decoder-details.csv.gz", run="details")
    rows = table(gather.single(database, ["details"]), caption).rows
    each = "SELECT trace_id, launch_index, rule, max(speedup_pct) AS pct FROM ncu_rules WHERE speedup_kind = 'global'"
    times = {row["launch_index"]: row["duration_ns"] for row in database.sql("FROM launches").rows()}
    saved: dict[str, float] = {}
    for row in database.sql(f"{each} AND kind <> 'INF' GROUP BY ALL").rows():
        saved[row["rule"]] = saved.get(row["rule"], 0) + row["pct"] * times[row["launch_index"]] / 100
    most = max(saved, key=lambda rule: saved[rule])
    assert (rows[0]["rule"], rows[0]["at_stake_ns"]) == (most, pytest.approx(saved[most]))
    stakes = [row["at_stake_ns"] for row in rows]
    assert stakes == sorted(stakes, reverse=True)
    assert len(stakes) > 3
    assert all(row["message"] and 0 < row["share_pct"] < 100 for row in rows)


def test_the_drawing_library_is_bundled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And anew where the kept copy was cut short, changed, or is no text."""
    made: list[str] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def bundled() -> str:
        made.append("one")
        return "draw()"

    monkeypatch.setattr(html, "_bundled", bundled)
    whole = html.script()
    assert whole == html.script()
    assert whole.startswith("draw()\n/* sha256 ")
    assert len(made) == 1
    (kept,) = (tmp_path / "kerneldb").iterdir()
    for number, other in enumerate((b"dra", whole.replace("draw", "evil").encode(), b"\xff", b""), 2):
        kept.write_bytes(other)
        assert html.script() == whole
        assert len(made) == number
        assert kept.read_text(encoding="utf-8") == whole


def test_a_cache_that_cannot_be_written_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder stands where the script would be kept; no part of it stays behind."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(html, "_bundled", lambda: "draw()")
    html.script()
    (kept,) = (tmp_path / "kerneldb").iterdir()
    kept.unlink()
    kept.mkdir()
    assert html.script().startswith("draw()")
    assert list((tmp_path / "kerneldb").iterdir()) == [kept]


@pytest.mark.thorough
def test_what_fusing_saves_is_the_same_everywhere(shared_data: Path, tmp_path: Path) -> None:
    """In the piece, its sentence, the table below and the macro: with pauses, and without."""
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "pytorch" / "bloom-560m.json.gz")
    report = gather.single(database, ["bloom-560m"])
    sums = "SELECT sum(at_stake_ns) AS stake, sum(kernel_ns_at_stake) AS kernels FROM fusion_candidates('kernels')"
    (found,) = database.sql(sums).rows()
    assert (found["stake"], found["kernels"]) == (33_501_589, 3_320_666)
    (piece,) = (one for section in report.sections for one in section.advice if one.rule == "fusible")
    assert piece.at_stake_ns == found["kernels"]
    assert database.sql(piece.sql).rows()[0]["at_stake_ns"] == found["kernels"]
    assert "save 3.32 ms of kernel time at most" in piece.sentence
    shown = table(report, "Runs of small kernels that could be one")
    assert {row["all_at_stake_ns"] for row in shown.rows} == {found["stake"]}
    titles = {column.name: column.title for column in shown.columns}
    assert (titles["at_stake_ns"], titles["kernel_ns_at_stake"]) == ("at most saved, with pauses", "without pauses")


def test_a_trace_without_a_timeline_says_what_it_cannot_tell(shared_data: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "nsys" / "dsocr_decode_cuda_gpu_kern_sum.csv")
    (section,) = (one for one in gather.single(database, ["dsocr*"]).sections if one.title == contents.WHY)
    assert {one.rule for one in section.advice} == {"decode-gemv"}
    assert why.NO_TIMELINE in section.text
    assert "No rule found anything" not in section.text


def test_an_unknown_rule_is_told(compared: Database) -> None:
    """As `bounds` does, and where nothing has counters, too."""
    with pytest.raises(UsageError, match="no rule 'nvu'; near: ncu"):
        gather.single(compared, ["base"], "nvu")
    with pytest.raises(UsageError, match="no rule 'nvu'; near: ncu"):
        changes.comparison(compared, "base", "slower", 0.03, "nvu")


def test_bars_of_several_gpus_are_side_by_side() -> None:
    """Upon each other they would be as high as both together."""
    rows = [{"iteration": "0", "device": device, "steady_state": True, "ms": 1.5} for device in (0, 1)]
    assert charts.columns(rows, "iteration", "ms", "ms")["encoding"]["xOffset"]["field"] == "device"
    assert "xOffset" not in charts.columns(rows[:1], "iteration", "ms", "ms")["encoding"]


def test_roofs_of_one_height_are_one() -> None:
    """Two names over each other cannot be read."""
    peaks = {"fp16": 9.8946e14, "bf16": 9.89460001e14, "fp32": 6.7e13}
    points = [
        {"dtype": name, "intensity": 1.0, "peak_flops_per_second": peak, "ridge": peak / 4.8e12}
        for name, peak in peaks.items()
    ]
    drawn = charts.roofs(points, "dtype")
    assert list(dict.fromkeys(row["name"] for row in drawn)) == ["fp16, bf16 peak", "fp32 peak"]
    assert len(drawn) == 6


@pytest.mark.volume
def test_a_program_that_waits_for_copies_is_told_so(shared_data: Path, tmp_path: Path) -> None:
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(shared_data / "nsys" / "nsysai_h100_2gpu_1s.sqlite")
    report = gather.single(database, ["nsysai_h100_2gpu_1s"])
    (first, *_) = [one for section in report.sections for one in section.advice]
    assert first.rule == "exposed-copies"
    assert "Copies from the host to the GPU that no kernel hides take 1.84 s (95 %)" in first.sentence


def test_what_could_be_less_is_found(example_report: Report) -> None:
    rules = {piece.rule for section in example_report.sections for piece in section.advice}
    assert "host-bound" in rules
    stakes = [piece.at_stake_ns or 0 for section in example_report.sections for piece in section.advice]
    assert stakes == sorted(stakes, reverse=True)


def test_the_comparison_names_what_changed(compared: Database) -> None:
    report = changes.comparison(compared, "base", "slower", 0.03)
    rows = table(report, "Changes, largest first").rows
    assert {row["verdict"] for row in rows} == {"slower"}
    sums = next(section for section in report.sections if section.title == "Sums")
    assert "GPU time" in sums.text


def test_names_may_be_patterns(compared: Database) -> None:
    assert [row["trace"] for row in named(compared, "*o*")] == ["clocks", "noisy", "slower"]
    with pytest.raises(UsageError, match="no trace 'x\\*'"):
        named(compared, "x*")


def test_markdown_escapes_what_markup_would_eat(compared: Database, example_report: Report) -> None:
    text = markdown.page(example_report)
    assert text.startswith("# GPU kernels of base\n")
    assert re.search(r"^\| 1 \| [\d.]+ % \|", text, re.MULTILINE)
    assert "```sql" in text


def test_markdown_escapes_what_sentences_and_captions_take_from_files() -> None:
    """Names of devices and traces stand in both."""
    column = Column("a", "a")
    blocks = (Table("<b>full", (column,), [{"a": 1}], "SELECT 1"), Table("t", (column,), [], "SELECT 1", "no <u>"))
    text = markdown.page(Report("r", "", (Section("s", blocks, (), "a GPU *named* <i>"),)))
    assert re.findall(r".<[biu]>", text) == ["\\<i>", "\\<b>", "\\<u>"]
    assert "\\*named\\*" in text


def test_markdown_has_what_charts_show(compared: Database, example_report: Report) -> None:
    text = markdown.page(example_report)
    assert "### Host and streams over time" in text
    assert re.search(r"^- GPU 0, stream 7: `[ ▁▂▃▄▅▆▇█]{40,}`$", text, re.MULTILINE)
    times = compared.sql(
        "SELECT sum(duration_ns) / 1e6 AS ms FROM kernels WHERE trace = 'base' AND iteration = 3"
    ).rows()
    assert re.search(rf"^\| 3 \| {times[0]['ms']:.4g} \| True \|$", text, re.MULTILINE)


def test_replays_have_a_section_where_there_are_any(compared: Database, example_report: Report, tmp_path: Path) -> None:
    """A replay of the most frequent signature, written as the engine would, at nine tenths of the time."""
    path = tmp_path / "replayed.duckdb"
    shutil.copy(compared.path, path)
    database = kerneldb.open(path)
    database.sql(
        """
        INSERT INTO replays BY NAME
        SELECT
            'run' AS run_id, 'item' AS item_id, 0 AS ordinal, signature_id, 'L0' AS grade, count(*) AS launches,
            0.9 * avg(duration_ns) AS replay_ns
        FROM kernels WHERE trace = 'base' AND kind = 'kernel' GROUP BY signature_id ORDER BY count(*) DESC LIMIT 1
        """,
        write=True,
    )
    report = gather.single(database, ["base"])
    grades = {row["grade"]: row for row in table(report, "Recorded against replayed, by grade").rows}
    assert set(grades) == {"L0", "not replayed"}
    assert grades["L0"]["delta_pct"] == pytest.approx(-10)
    (kernel,) = table(report, "Replayed kernels").rows
    assert kernel["n"] == grades["L0"]["n"]
    assert "Replay and reconciliation" not in [section.title for section in example_report.sections]


def test_a_year_old_browser_needs_nothing_else(example_report: Report) -> None:
    page = html.page(example_report)
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", without_scripts(page))
    assert len(page) < 5_000_000


def without_scripts(page: str) -> str:
    return re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


def browse(page: Path, folder: Path) -> tuple[str, str, list[str]]:
    """The DOM after drawing, the log, and the URLs asked for over a network."""
    log = folder / "net.json"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=15000", "--enable-logging=stderr"]
    flags += [f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", "--dump-dom"]
    done = subprocess.run(
        [str(CHROMIUM), *flags, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    urls = re.findall(r'"url":"(https?:[^"]+)"', log.read_text(encoding="utf-8", errors="replace"))
    return done.stdout, done.stderr, [url for url in urls if "google" not in url and "gvt1" not in url]


@needs_browser
def test_the_page_draws_all_charts_in_a_browser(compared: Database, example_report: Report, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html.page(example_report), encoding="utf-8")
    dom, log, urls = browse(page, tmp_path)
    charts = [block for section in example_report.sections for block in section.blocks if isinstance(block, Chart)]
    assert without_scripts(dom).count("<svg") == len([chart for chart in charts if not chart.events]) > 2
    assert without_scripts(dom).count("<canvas") == 1
    assert "CONSOLE" not in log
    assert urls == []


@pytest.mark.thorough
@needs_browser
def test_names_from_a_trace_run_nothing(tmp_path: Path) -> None:
    kernel = {
        "ph": "X", "cat": "kernel", "name": EVIL, "pid": 0, "tid": 7, "ts": 10, "dur": 5,
        "args": {"device": 0, "stream": 7, "correlation": 1, "grid": [1, 1, 1], "block": [32, 1, 1]},
    }  # fmt: skip
    (tmp_path / "evil.json").write_text(json.dumps({"traceEvents": [kernel]}), encoding="utf-8")
    database = kerneldb.open(tmp_path / "k.duckdb")
    database.ingest(tmp_path / "evil.json", name=EVIL[:40], label=EVIL)
    page = tmp_path / "report.html"
    page.write_text(html.page(gather.single(database, [EVIL[:40]])), encoding="utf-8")
    dom, log, _ = browse(page, tmp_path)
    assert "<img" not in without_scripts(dom)
    assert "CONSOLE" not in log
    assert without_scripts(dom).count("<svg") > 1


def test_the_command_chooses_by_the_file_name(compared: Database, tmp_path: Path) -> None:
    for name, start in (("r.html", "<!doctype html>"), ("r.md", "# GPU kernels of base")):
        run = CliRunner().invoke(cli, ["--db", str(compared.path), "report", "base", "-o", str(tmp_path / name)])
        assert run.exit_code == 0, run.stderr
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    bad = CliRunner().invoke(cli, ["--db", str(compared.path), "report", "base", "--compare"])
    assert bad.exit_code == 2
    unknown = CliRunner().invoke(cli, ["--db", str(compared.path), "report", "nothing", "--format", "md"])
    assert (unknown.exit_code, "no trace 'nothing'" in unknown.stderr) == (2, True)


@pytest.mark.thorough
def test_the_report_on_deepseek_ocr(shared_data: Path, deepseek_file: Path, tmp_path: Path) -> None:
    """Figures of the published report on these files, with its own rule; intensities with the unit it dropped."""
    database = kerneldb.open(shutil.copy(deepseek_file, tmp_path / "k.duckdb"))
    decode = shared_data / "nsys" / "dsocr_decode_cuda_gpu_kern_sum.csv"
    database.ingest([decode, shared_data / "ncu" / "deepseek-ocr-v2"])
    report = gather.single(database, ["dsocr_decode_cuda_gpu_kern_sum", "deepseek-ocr-v2"], "sm_dram")
    top = table(report, "Top kernels").rows
    assert [round(row["share_pct"], 1) for row in top[:5]] == [34.4, 14.8, 6.0, 4.2, 3.9]
    classes = {row["verdict"]: row for row in table(report, "Classes by the rule sm_dram").rows}
    assert {name: row["n"] for name, row in classes.items()} == {"memory": 9, "balanced": 7, "compute": 4, "all": 20}
    means = [round(classes[name]["compute_pct"], 2) for name in ("compute", "memory", "balanced", "all")]
    assert means == [36.21, 9.38, 12.25, 15.75]
    means = [round(classes[name]["dram_pct"], 2) for name in ("compute", "memory", "balanced", "all")]
    assert means == [9.89, 34.23, 12.62, 21.80]
    durations = [round(classes[name]["mean_ns"] / 1000, 2) for name in ("compute", "memory", "balanced", "all")]
    assert durations == [137.44, 9.67, 39.75, 45.75]
    points = sorted(round(row["intensity"], 1) for row in table(report, "Points of the roofline").rows)
    assert points == [70.8, 96.5, 380.6, 716.1, 717.6]
    charts = [block.caption for section in report.sections if section.title == "Counters" for block in section.blocks]
    assert len(charts) == 13
    every_query_gives_its_rows(database, report)


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether rows are equal, but for the order in which threads have summed up."""
    return one.keys() == other.keys() and all(
        math.isclose(value, other[name], rel_tol=1e-9) if isinstance(value, float) else value == other[name]
        for name, value in one.items()
    )


def every_query_gives_its_rows(database: Database, report: Report) -> None:
    """Queries stand in the report as a reader would run them."""
    for section in report.sections:
        for block in section.blocks:
            rows = database.sql(block.sql).rows()
            assert not block.sql.startswith("-")
            if isinstance(block, Table):
                assert len(rows) >= len(block.rows), block.caption
                assert all(map(alike, rows, block.rows)), block.caption
            else:
                assert rows, block.caption


@pytest.mark.thorough
def test_a_roof_by_the_data_sheet_where_the_product_is_known(deepseek_file: Path, tmp_path: Path) -> None:
    """The files of DeepSeek-OCR hold no peaks and name the chip alone, which several products have."""
    database = kerneldb.open(shutil.copy(deepseek_file, tmp_path / "k.duckdb"))
    (run,) = {row["run"] for row in database.traces().rows()}
    caption, title = "Points of the roofline", "Roofline of the counters"

    def asked() -> tuple[list[dict[str, Any]], str, bool]:
        report = gather.single(database, [run])
        (section,) = (one for one in report.sections if one.title == title)
        (drawn,) = (block for block in section.blocks if block.caption == "Physical roofline")
        assert isinstance(drawn, Chart)
        return (
            table(report, caption).rows,
            section.text,
            "bf16 tensor cores, sums in fp32 peak" in json.dumps(drawn.spec),
        )

    rows, text, roofed = asked()
    assert not roofed
    assert {row["peak_flops_per_second"] for row in rows} == {None}
    assert "names sm_120 only" in text
    named = "UPDATE devices SET name = 'NVIDIA GeForce RTX 5090', gpu = 'RTX 5090'"
    database.sql(named, write=True)
    rows, text, roofed = asked()
    assert roofed
    sheet = "SELECT fact, value FROM gpu_specs WHERE name = 'RTX 5090'"
    facts = {row["fact"]: row["value"] for row in database.sql(sheet).rows()}
    assert {row["peak_flops_per_second"] for row in rows} == {facts["bf16_tflops"] * 1e12}
    assert {row["peak_bytes_per_second"] for row in rows} == {facts["bandwidth_gbs"] * 1e9}
    assert {row["peaks_from"] for row in rows} == {"data sheet of RTX 5090"}
    assert "data sheet of RTX 5090" in text
    assert "No roof" not in text


def test_a_report_on_a_file_without_a_database_names_the_commands_that_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trace, place = Path(__file__).parents[1] / "fixtures" / "stacks-memory-h200.json.gz", tmp_path / "k.duckdb"
    refused = CliRunner().invoke(cli, ["--db", str(place), "report", str(trace)])
    assert refused.exit_code == 2
    told = refused.stderr.rpartition("there is none: ")[2].strip().split(" && ")
    for line in told:
        assert CliRunner().invoke(cli, shlex.split(line)[1:]).exit_code == 0, line
    assert (tmp_path / "report.html").stat().st_size > 10_000
    missing = CliRunner().invoke(cli, ["--db", str(tmp_path / "n.duckdb"), "report", "name"])
    assert "no such database" in missing.stderr
