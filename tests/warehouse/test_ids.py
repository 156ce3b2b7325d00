from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from kerneldb.ids import content_id

FIELDS = st.lists(
    st.one_of(st.none(), st.integers(), st.text(st.characters(exclude_characters="\x00\x1f"))), max_size=6
)


def test_id_is_the_documented_hash() -> None:
    expected = hashlib.sha256(b"s1\x1fkernel\x1f64\x1f\x00\x1f").hexdigest()[:16]
    assert content_id("s1", "kernel", 64, None, "") == expected


@given(FIELDS, FIELDS)
def test_different_fields_have_different_ids(left: list[str | int | None], right: list[str | int | None]) -> None:
    as_text = [[field if field is None else str(field) for field in fields] for fields in (left, right)]
    assert (content_id("t1", *left) == content_id("t1", *right)) == (as_text[0] == as_text[1])


def test_damaged_text_has_an_id() -> None:
    assert len(content_id("n1", "kernel\ud800")) == 16
