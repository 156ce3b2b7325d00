"""A headless Chromium that is driven as a person would: keys, mouse, sizes, colour schemes; and what it asked for.

Spoken to over its debugging pipe, so that no port is opened and no other program is needed.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking",
    "--no-first-run", "--disable-component-update", "--remote-debugging-pipe", "--disable-dev-shm-usage",
)  # fmt: skip
CODES: Final = {
    "Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
    "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip
SHIFT: Final = 8
LONGEST_S: Final = 60
"""So long a browser may say nothing while something is awaited of it."""


class PageError(AssertionError):
    """An exception of a script that was given to the page."""


class Page:
    """One tab. `asked` are the addresses that it requested, `wrong` what its console complained about."""

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out = into, out
        self._numbers, self._session, self._held = itertools.count(1), "", b""
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self._seen: set[str] = set()
        (tab,) = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"][:1]
        found = self.call("Target.attachToTarget", targetId=tab["targetId"], flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **given: Any) -> Any:
        """The answer of the browser to one command."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": given}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._into, data) :]
        while True:
            found = self._read()
            if found.get("id") == number:
                if "error" in found:
                    raise PageError(f"{method}: {found['error']}")
                return found["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            if not select.select([self._out], [], [], LONGEST_S)[0]:
                raise PageError(f"the browser has said nothing for {LONGEST_S} s")
            piece = os.read(self._out, 1 << 20)
            if not piece:
                raise PageError("the browser has ended")
            self._held += piece
        text, _, self._held = self._held.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        self._note(found.get("method"), found.get("params", {}))
        return found

    def _note(self, method: str | None, what: dict[str, Any]) -> None:
        self._seen.add(str(method))
        if method == "Network.requestWillBeSent":
            self.asked.append(what["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.wrong.append(json.dumps(what["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" or (method == "Runtime.consoleAPICalled" and what["type"] != "log"):
            self.wrong.append(json.dumps(what.get("entry", what))[:500])

    def size(self, width: int, height: int) -> None:
        """The window, in pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def looks(self, scheme: str = "light", medium: str = "") -> None:
        """Light or dark; on paper with `medium` print."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=medium, features=features)

    def go(self, url: str, ready: str = "window.drawn") -> None:
        """Open an address, and wait until it is loaded and `ready` is resolved."""
        self._seen.discard("Page.loadEventFired")
        if wrong := self.call("Page.navigate", url=url).get("errorText"):
            raise PageError(f"{url}: {wrong}")
        while "Page.loadEventFired" not in self._seen:
            self._read()
        self.run(f"(async () => {{ await {ready}; await {SETTLED}; }})()")

    def run(self, script: str) -> Any:
        """The value of an expression, awaited."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise PageError(json.dumps(found["exceptionDetails"])[:1000])
        return found["result"].get("value")

    def settled(self) -> None:
        """Wait for two frames: what was asked for is drawn."""
        self.run(SETTLED)

    def press(self, *keys: str) -> None:
        """Keys one after the other, by their names; `shift+` before one holds Shift."""
        for name in keys:
            key, shift = name.removeprefix("shift+"), SHIFT * name.startswith("shift+")
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            common = {"key": key, "windowsVirtualKeyCode": CODES.get(key, ord(key[0].upper())), "modifiers": shift}
            self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
            self.call("Input.dispatchKeyEvent", type="keyUp", **common)
        self.settled()

    def drag(self, x: float, y: float, to: float, *, shift: bool = False) -> None:
        """Press the mouse at (x, y), move to (to, y), let go; a click where both are the same."""
        steps = (("mouseMoved", x), ("mousePressed", x), ("mouseMoved", (x + to) / 2), ("mouseMoved", to))
        for what, at in (*steps, ("mouseReleased", to)):
            self.call(
                "Input.dispatchMouseEvent", type=what, x=at, y=y, button="left", clickCount=1, modifiers=SHIFT * shift
            )
        self.settled()

    def wheel(self, x: float, y: float, by: float) -> None:
        """Turn the wheel over (x, y)."""
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=by)
        self.settled()

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """What is seen as PNG; the whole page where asked."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def paper(self, path: Path) -> None:
        """The page as it is printed, as PDF."""
        found = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def heard(self) -> list[tuple[str, str]]:
        """Roles and names of what a screen reader comes across."""
        found = self.call("Accessibility.getFullAXTree")["nodes"]
        kept = (one for one in found if not one["ignored"])
        return [(one["role"]["value"], one.get("name", {}).get("value", "")) for one in kept]


SETTLED: Final = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@contextmanager
def browser(width: int = 1024, height: int = 768) -> Iterator[Page]:
    """A browser with an empty profile, and its page."""
    take, into = os.pipe()
    out, give = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        words = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        line = ["bash", "-c", f'exec "$@" 3<&{take} 4>&{give}', "chromium", *words]
        with subprocess.Popen(line, pass_fds=(take, give), stderr=subprocess.DEVNULL) as process:
            os.close(take)
            os.close(give)
            try:
                page = Page(into, out)
                page.size(width, height)
                yield page
                page.call("Browser.close")
                process.wait(60)
            finally:
                process.kill()
                os.close(into)
                os.close(out)


@contextmanager
def opened_at(page: Page, address: str) -> Iterator[None]:
    """`page` at an address, as if it had just been opened there; what goes wrong meanwhile fails the test."""
    page.wrong.clear()
    page.go("about:blank", "null")
    page.go(address)
    yield
    assert page.wrong == []
