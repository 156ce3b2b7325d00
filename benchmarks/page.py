"""The timeline of a page in headless Chromium: time until it is drawn, frames per second, memory.

    python benchmarks/page.py DATABASE TRACE [--serve] [--json benchmarks/results/DATE-page.json]

The page is the report of a trace, of a million events or more; with `--serve` it is the timeline of `kerneldb serve`,
and what it asks for is timed, too. Drawn on the processor, with a read of a pixel after each frame, so that the frame
has been painted. Waits of the page are real: no virtual time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kerneldb
from kerneldb.report import gather, html, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = """<script>window.drawn.then(async () => {
  const view = Object.values(window.views)[0], said = {}, read = () => view.pen.getImageData(0, 0, 1, 1);
  view.paint(); read();
  said.open_ms = performance.now();
  said.heap_mb = performance.memory.usedJSHeapSize / 1e6;
  const frames = async (name, place) => {
    let count = 0, worst = 0;
    const begun = performance.now();
    while (performance.now() - begun < 3000) {
      const before = performance.now();
      place(count++ / 60); view.clamp(); view.paint(); read();
      worst = Math.max(worst, performance.now() - before);
      await new Promise((done) => requestAnimationFrame(done));
    }
    said[name] = {frames_per_s: 1000 * count / (performance.now() - begun), worst_ms: worst};
  };
  const show = (middle, span) => { view.from = middle - span / 2; view.to = middle + span / 2; };
  const show_at = (part) => { show(view.end * 0.4, view.end * part); view.paint(); };
  await frames("zoom", (s) => show(view.end * 0.4, view.end * Math.exp(-5 * (1 - Math.cos(s)))));
  await frames("drag half", (s) => show(view.end * (0.5 + 0.25 * Math.sin(s)), view.end * 0.5));
  await frames("drag 2 %", (s) => show(view.end * (0.5 + 0.45 * Math.sin(s)), view.end * 0.02));
  const asked = async (name, act) => {
    const before = performance.now();
    await act();
    await view.rested?.();
    said[name] = performance.now() - before;
  };
  await asked("largest_gap_ms", () => view.gap(0));
  await asked("next_gap_ms", () => view.gap(1));
  for (const part of [0.3, 0.03, 0.003, 0.0003]) await asked(`to ${100 * part} %`, () => show_at(part));
  view.search.value = "kernel_7";
  await asked("search_ms", () => view.find("kernel_7"));
  await asked("next_ms", () => view.next(1));
  view.range = [0, view.end];
  await asked("sums_of_all_ms", () => view.tell_range());
  said.rows = view.data.lanes.reduce((sum, lane) => sum + lane.n, 0);
  said.events = view.data.events;
  said.heap_after_mb = performance.memory.usedJSHeapSize / 1e6;
  console.log("FOUND " + JSON.stringify(said));
});</script>"""


def main() -> int:
    """Measure; the exit code is 1 where the page is slower than what a person wants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", type=Path)
    parser.add_argument("trace")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    database = kerneldb.open(given.database)
    found = {"machine": platform.platform(), "date": time.strftime("%Y-%m-%d")}
    with (_served if given.serve else _written)(database, given.trace, found) as url:
        found |= _browsed(url)
    text = json.dumps(found, indent=1)
    sys.stdout.write(text + "\n")
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")
    slow = min(found[name]["frames_per_s"] for name in ("zoom", "drag half", "drag 2 %"))
    return int(slow < 30 or found["open_ms"] > 2000 or found["heap_mb"] > 500)


def _scripted(page: str, found: dict[str, Any]) -> str:
    found["page_mb"] = len(page) / 1e6
    before, end, after = page.rpartition("</body>")
    return before + SCRIPT + end + after


@contextlib.contextmanager
def _written(database: kerneldb.Database, trace: str, found: dict[str, Any]) -> Iterator[str]:
    """The address of the report as a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        began = time.process_time()
        page = html.page(gather.single(database, [trace]))
        found["made_cpu_s"] = time.process_time() - began
        path.write_text(_scripted(page, found), encoding="utf-8")
        yield path.as_uri()


@contextlib.contextmanager
def _served(database: kerneldb.Database, trace: str, found: dict[str, Any]) -> Iterator[str]:
    """The address of the timeline, of a server in this process."""
    page, token = html.page, secrets.token_urlsafe(24)
    html.page = lambda report: _scripted(page(report), found)
    with serve.listening(0) as sock:
        sock.listen()
        threading.Thread(target=serve.run, args=(database, sock, token), daemon=True).start()
        yield f"http://{serve.HOST}:{sock.getsockname()[1]}/timeline?name={urllib.parse.quote(trace)}&token={token}"
    found["server_cpu_s"] = time.process_time()


def _browsed(url: str) -> dict[str, Any]:
    """What the script says."""
    program = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("no Chromium on this machine")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # processes of a killed browser still write
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-precise-memory-info",
            "--window-size=1400,1000",
        ]
        line = [program, *flags, "--enable-logging=stderr", f"--user-data-dir={folder}/profile", url]
        with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, errors="replace") as process:
            try:
                for text in process.stderr or ():
                    if said := re.search(r'"FOUND (\{.*\})", source', text):
                        return dict(json.loads(said[1]))
            finally:
                process.kill()
    sys.exit("the page said nothing")


if __name__ == "__main__":
    sys.exit(main())
