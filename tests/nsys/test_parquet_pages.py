"""Sizes that a Parquet file claims are not believed where it would cost memory or time to find out."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from kerneldb.errors import UnreadableTraceError
from kerneldb.ingest.nsys import pages
from kerneldb.ingest.nsys.store import ParquetStore
from kerneldb.limits import ExceededError

LARGE = 100 << 20


def number(value: int, width: int = 0) -> bytes:
    """A number of Thrift's compact protocol; padded to a width, which readers take."""
    left, found = max(2 * value, -2 * value - 1), list[int]()
    while left >= 128 or len(found) + 1 < width:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left])


def forged(path: Path, old: int, new: int, *, last: bool = False) -> None:
    """Write another number in the metadata at the end of a file, in all places or in the last one."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    pages_of, footer = data[: -8 - length], data[-8 - length : -8]
    wanted = number(old)
    assert wanted in footer
    new_number = number(new, len(wanted))
    footer = new_number.join(footer.rsplit(wanted, 1)) if last else footer.replace(wanted, new_number)
    path.write_bytes(pages_of + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("codec", ["none", "zstd", "snappy", "gzip"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_are_as_large_as_their_headers_say(tmp_path: Path, codec: str, version: str) -> None:
    """The metadata of healthy files have the sum, of which the headers themselves are a part."""
    table = pa.table({
        "a": pa.array(range(30_000)),
        "text": pa.array([f"name {row % 1000}" for row in range(30_000)]),
        "flag": pa.array([row % 3 == 0 or None for row in range(30_000)]),
    })  # fmt: skip
    path = tmp_path / "t.parquet"
    parquet.write_table(
        table, path, compression=codec, data_page_version=version, data_page_size=5_000, row_group_size=10_000,
        write_page_checksum=True,
    )  # fmt: skip
    metadata = parquet.read_metadata(path)
    stated = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    assert 0.97 * stated < pages.decompressed(path, metadata) < stated


def test_pages_of_polars_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"value": [f"{row:050}" for row in range(20_000)]}).write_parquet(path)
    assert pages.decompressed(path, parquet.read_metadata(path)) > 50 * 20_000


def test_a_page_that_becomes_large_is_refused_whatever_the_metadata_claim(tmp_path: Path) -> None:
    path = tmp_path / "StringIds.parquet"
    table = pa.table({"id": [1], "value": ["x" * LARGE]})
    parquet.write_table(table, path, compression="zstd", data_page_size=1 << 30, use_dictionary=False)
    metadata = parquet.read_metadata(path)
    sizes = [metadata.row_group(0).column(place).total_uncompressed_size for place in (0, 1)]
    forged(path, sizes[1], 1000)
    forged(path, sum(sizes), 1000)
    assert parquet.read_metadata(path).row_group(0).total_byte_size == 1000
    with pytest.raises(ExceededError, match="one stored byte becomes"):
        ParquetStore(tmp_path)


@pytest.mark.parametrize("rows", [1 << 60, -5])
def test_rows_that_only_a_group_claims_are_refused(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "StringIds.parquet"
    parquet.write_table(pa.table({"id": range(12_345)}), path)
    data = path.read_bytes()
    forged(path, 12_345, rows, last=True)
    found = parquet.read_metadata(path)
    assert (found.num_rows, found.row_group(0).num_rows) == (12_345, rows)
    with pytest.raises(UnreadableTraceError, match="other numbers of rows"):
        ParquetStore(tmp_path)
    path.write_bytes(data)
    assert ParquetStore(tmp_path).count("StringIds") == 12_345


@pytest.mark.parametrize("damage", [b"\xff" * 24, b"\x00" * 24, b"\x1c" * 24])
def test_a_page_without_a_header_is_damaged(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "StringIds.parquet"
    parquet.write_table(pa.table({"id": range(12_345)}), path, use_dictionary=False)
    data = path.read_bytes()
    path.write_bytes(data[:4] + damage + data[4 + len(damage) :])
    with pytest.raises(UnreadableTraceError, match=r"StringIds\.parquet: damaged"):
        ParquetStore(tmp_path)
