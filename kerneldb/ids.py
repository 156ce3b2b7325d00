"""Content ids: the one hash that names traces, kernel names, operator calls and signatures.

An id is made of facts of a file only, so every writer computes the same one without asking another writer.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

SEPARATOR: Final = "\x1f"
NULL: Final = "\x00"
ID_CHARACTERS: Final = 16
CODE_CHARACTERS: Final = 51


def content_id(tag: str, *fields: str | int | None) -> str:
    r"""Return 16 hex digits of the SHA-256 over `tag` and `fields`, joined by the unit separator U+001F.

    `tag` names kind and version of the id ("n1", "c1", "s1", "t1", "k1"). Integers enter as decimal text and None as
    U+0000, so that an absent field differs from an empty one.

    >>> content_id("n1", "") == content_id("n1", None)
    False
    """
    text = SEPARATOR.join((tag, *(NULL if field is None else str(field) for field in fields)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:ID_CHARACTERS]


def code_hash(text: str) -> str:
    """The name that TorchInductor gives a file with this source, which traces have as `kernel_hash`.

    "c" and the SHA-256 of the text without surrounding space, as 51 lower-case base-32 characters (`write` and
    `code_hash` of torch/_inductor/codecache.py, torch 2.1 to 2.13).
    """
    digest = hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).digest()
    return "c" + base64.b32encode(digest)[:CODE_CHARACTERS].decode("ascii").lower()
