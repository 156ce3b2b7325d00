"""The JavaScript that draws the charts. Bundling it takes over a second, so it is kept for the next report."""

from __future__ import annotations

import contextlib
import os
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, Final

UNUSABLE: Final = (OSError, UnicodeDecodeError, RuntimeError)
"""What a cache that cannot be read or written raises; RuntimeError is for a user without a home."""
ENDS_WITH: Final = "\n/* whole */\n"
"""Behind a kept bundle, so that one that was cut short is made anew."""


def script() -> str:
    """Vega, Vega-Lite and vega-embed as one script, from the cache where an earlier report left it."""
    with contextlib.suppress(*UNUSABLE):
        text = _place().read_text(encoding="utf-8")
        if text.endswith(ENDS_WITH):
            return text
    text = _bundled() + ENDS_WITH
    with contextlib.suppress(*UNUSABLE):
        _keep(_place(), text)
    return text


def _place() -> Path:
    """Where the bundle of this version of vl-convert is kept: `$XDG_CACHE_HOME/kerneldb`, else `~/.cache/kerneldb`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "kerneldb" / f"vega-{metadata.version('vl-convert-python')}.js"


def _bundled() -> str:
    import vl_convert

    bundle: Any = vl_convert.javascript_bundle  # its stub asks for an argument that it takes or leaves
    return str(bundle())


def _keep(path: Path, text: str) -> None:
    """Write as a whole or not at all, for programs that run at the same time."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as part:
        part.write(text)
    Path(part.name).replace(path)
