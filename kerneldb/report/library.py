"""The JavaScript that draws the charts. Bundling it takes over a second, so it is kept for the next report."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, Final

UNUSABLE: Final = (OSError, UnicodeDecodeError, RuntimeError)
"""What a cache that cannot be read or written raises; RuntimeError is for a user without a home."""
ENDS_WITH: Final = "\n/* sha256 {} */\n"
"""Behind a kept bundle, with the digest of what stands before: one that was cut short or changed is made anew."""


def script() -> str:
    """Vega, Vega-Lite and vega-embed as one script, from the cache where an earlier report left it."""
    with contextlib.suppress(*UNUSABLE):
        text = _place().read_bytes().decode("utf-8")
        if _is_whole(text):
            return text
    text = _sealed(_bundled())
    with contextlib.suppress(*UNUSABLE):
        _keep(_place(), text)
    return text


def _sealed(bundle: str) -> str:
    return bundle + ENDS_WITH.format(hashlib.sha256(bundle.encode()).hexdigest())


def _is_whole(text: str) -> bool:
    """Whether the digest at the end is that of all before it."""
    bundle = text[: -len(_sealed(""))]
    return text == _sealed(bundle)


def _place() -> Path:
    """Where the bundle of this version of vl-convert is kept: `$XDG_CACHE_HOME/kerneldb`, else `~/.cache/kerneldb`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "kerneldb" / f"vega-{metadata.version('vl-convert-python')}.js"


def _bundled() -> str:
    import vl_convert

    bundle: Any = vl_convert.javascript_bundle  # its stub asks for an argument that it takes or leaves
    return str(bundle())


def _keep(path: Path, text: str) -> None:
    """Write as a whole or not at all, for programs that run at the same time. Leaves nothing where that fails."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(number, "wb") as sink:
            sink.write(text.encode())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
