"""The timeline of a page in headless Chromium: time until it is drawn, frames per second, memory.

    python benchmarks/page.py DATABASE TRACE [--most EVENTS] [--json benchmarks/results/DATE-page.json]

The page is the report of a trace, of a million events or more; with `--most 5000000` it is that of `kerneldb serve`.
Drawn on the processor, with a read of a pixel after each frame, so that the frame has been painted. Waits of the page
are real: no virtual time.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import kerneldb
from kerneldb.report import events, gather, html

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
  await frames("zoom", (s) => show(view.end * 0.4, view.end * Math.exp(-5 * (1 - Math.cos(s)))));
  await frames("drag half", (s) => show(view.end * (0.5 + 0.25 * Math.sin(s)), view.end * 0.5));
  await frames("drag 2 %", (s) => show(view.end * (0.5 + 0.45 * Math.sin(s)), view.end * 0.02));
  const once = (name, act) => { const before = performance.now(); act(); said[name] = performance.now() - before; };
  once("search_ms", () => view.find("gemm"));
  once("largest_gap_ms", () => view.gap(0));
  view.range = [0, view.end];
  once("sums_of_all_ms", () => view.tell_range());
  said.events = view.data.lanes.reduce((sum, lane) => sum + lane.n, 0);
  console.log("FOUND " + JSON.stringify(said));
});</script>"""


def main() -> int:
    """Measure; the exit code is 1 where the page is slower than what a person wants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", type=Path)
    parser.add_argument("trace")
    parser.add_argument("--most", type=int, default=events.MOST)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    page = html.page(gather.single(kerneldb.open(given.database), [given.trace], most_events=given.most))
    before, end, after = page.rpartition("</body>")
    found = {"machine": platform.platform(), "date": time.strftime("%Y-%m-%d"), "page_mb": len(page) / 1e6}
    found |= _browsed(before + SCRIPT + end + after)
    text = json.dumps(found, indent=1)
    sys.stdout.write(text + "\n")
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")
    slow = min(found[name]["frames_per_s"] for name in ("zoom", "drag half", "drag 2 %"))
    return int(slow < 30 or found["open_ms"] > 2000 or found["heap_mb"] > 500)


def _browsed(page: str) -> dict[str, Any]:
    """What the script says."""
    program = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("no Chromium on this machine")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(page, encoding="utf-8")
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-precise-memory-info",
            "--window-size=1400,1000",
        ]
        line = [program, *flags, "--enable-logging=stderr", f"--user-data-dir={folder}/profile", path.as_uri()]
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
