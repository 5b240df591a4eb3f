"""Files that are too large for memory are known before they are in it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import ValidationError

from sluicegate.bronze import file_sizes
from sluicegate.bronze.file_sizes import BLOCK, GROWTH, FileFault, SizeLimits, blocks_of, measure, oversized_files
from sluicegate.definition.tables.bronze import LARGEST_RECORD, BronzeTable

pytestmark = pytest.mark.unit

LINES = SizeLimits(record=10, file=100, whole=False, lines=True)
WHOLE = SizeLimits(record=10, file=100, whole=True, lines=False)


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def zipped(*names: str, data: bytes = b"x") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, data)
    return out.getvalue()


def unpacked(data: bytes, suffix: str) -> bytes:
    return b"".join(blocks_of(io.BytesIO(data), f"a.json{suffix}"))


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": gzip.compress, ".deflate": zlib.compress, ".bz2": bz2.compress, ".zst": zstd,
    ".xz": lzma.compress, ".zip": lambda data: zipped("a.json", data=data),
}  # fmt: skip


def land(folder: Path, suffix: str, data: bytes) -> str:
    path = folder / f"a.json{suffix}"
    path.write_bytes(PACKERS[suffix](data))
    return str(path)


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize(("length", "fits"), [(9, True), (10, True), (11, False)])
def test_a_line_may_have_as_many_bytes_as_the_definition_says(
    tmp_path: Path, suffix: str, length: int, fits: bool
) -> None:
    for data in (b"x" * length, b"a\n" + b"x" * length + b"\nb\n", b"x" * length + b"\r\nb", b"b\r" + b"x" * length):
        assert (measure(land(tmp_path, suffix, data), *LINES) is None) == fits, data


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize(("length", "fits"), [(99, True), (100, True), (101, False)])
def test_a_file_may_have_as_many_bytes_unpacked(tmp_path: Path, suffix: str, length: int, fits: bool) -> None:
    why = measure(land(tmp_path, suffix, b"x\n" * (length // 2) + b"x" * (length % 2)), *LINES)
    assert (why is None) == fits
    assert fits or "maxFileBytes" in (why or "")


@pytest.mark.parametrize(("length", "fits"), [(9, True), (10, True), (11, False)])
def test_a_file_that_is_read_as_one_is_a_record(tmp_path: Path, length: int, fits: bool) -> None:
    why = measure(land(tmp_path, ".gz", b"x\n" * (length // 2) + b"x" * (length % 2)), *WHOLE)
    assert (why is None) == fits
    assert fits or "maxRecordBytes" in (why or "")


def test_a_line_goes_on_from_block_to_block(tmp_path: Path) -> None:
    bounds = SizeLimits(record=2 * BLOCK, file=100 * BLOCK, whole=False, lines=True)
    for begun in (1, BLOCK - 1, BLOCK, BLOCK + 1):
        for length, fits in ((2 * BLOCK - 1, True), (2 * BLOCK, True), (2 * BLOCK + 1, False)):
            data = b"y" * (begun - 1) + b"\n" + b"x" * length + b"\nz"
            assert (measure(land(tmp_path, ".gz", data), *bounds) is None) == fits, (begun, length)


def test_what_ends_a_line_is_as_the_definition_says(tmp_path: Path) -> None:
    path = land(tmp_path, "", b"12345;12345;1234")
    assert measure(path, *LINES) is not None
    assert measure(path, *LINES._replace(separator=";")) is None


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".deflate", ".zst", ".xz", ".zip"])
def test_a_bomb_does_not_get_into_memory(tmp_path: Path, suffix: str) -> None:
    path = land(tmp_path, suffix, b'[{"a":"' + b"x" * (48 << 20) + b'"}]')
    for bounds in (WHOLE, LINES):
        bounds = bounds._replace(record=40 << 20, file=1 << 40)
        tracemalloc.start()
        assert measure(path, *bounds) is not None
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 16 << 20


def test_what_cannot_be_unpacked_is_for_the_reader_to_tell(tmp_path: Path) -> None:
    cut = tmp_path / "a.json.gz"
    cut.write_bytes(gzip.compress(b"x" * 99)[:-9])
    assert measure(str(cut), *LINES) is None
    assert measure(str(tmp_path / "gone.json"), *LINES) is None


def test_most_sizes_in_a_listing_say_enough() -> None:
    """What no packing can blow up beyond the bounds is not read to know."""
    bounds = SizeLimits(record=1032 * 50, file=1 << 40, whole=False, lines=True)
    assert GROWTH[".gz"] == 1032
    assert [bounds.fits("a.json.gz", size) for size in (49, 50, 51)] == [True, True, None]
    assert [bounds.fits("a.json", size) for size in (51599, 51600, 51601)] == [True, True, None]
    assert bounds.fits("a.json.bz2", 1) is None
    whole = bounds._replace(whole=True, lines=False)
    assert [whole.fits("a.json", size) for size in (51599, 51600, 51601)] == [True, True, False]
    small = bounds._replace(record=10, file=100)
    assert [small.fits("a.xml", size) for size in (99, 100, 101)] == [None, None, False]
    elements = small._replace(lines=False)
    assert [elements.fits("a.xml", size) for size in (99, 100, 101)] == [True, True, False]


def test_a_plain_file_needs_no_executor() -> None:
    """Without a session: what a listing says is enough."""
    given = {"path": "/landing", "format": "json", "options": {"multiLine": "true"}, "maxRecordBytes": "1k"}
    table = BronzeTable.model_validate(given, context={"landing": "/landing"})
    sizes = {"a.json": 1023, "b.json": 1024, "c.json": 1025}
    found = oversized_files(None, table, list(sizes), sizes)  # type: ignore[arg-type]
    assert found == {"c.json": "it is one record, and larger than maxRecordBytes (1.0 kB)"}
    parquet = table.model_copy(update={"format": "parquet"})
    assert oversized_files(None, parquet, list(sizes), sizes) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "right"), [(-1, True), (0, True), (1, False)])
def test_no_record_may_be_longer_than_an_array_of_java(size: int, right: bool) -> None:
    given = {"path": "/landing", "format": "json", "maxRecordBytes": LARGEST_RECORD + size}
    if right:
        assert BronzeTable.model_validate(given, context={}).maxRecordBytes == 2**31 - 1 + size
    else:
        with pytest.raises(ValidationError, match="less than or equal"):
            BronzeTable.model_validate(given, context={})


@pytest.mark.parametrize("size", [0, 1, BLOCK, 3 * BLOCK + 1])
def test_all_streams_of_an_xz_file_are_read(size: int) -> None:
    first, second = bytes(range(256)) * (size // 256) + b"\n" * (size % 256), b"b" * size
    packed = lzma.compress(first) + lzma.compress(second)
    assert unpacked(packed, ".xz") == first + second
    for damaged in (packed[:-9], b"", b"no xz", b"\0" * 8):
        with pytest.raises((EOFError, lzma.LZMAError)):
            unpacked(damaged, ".xz")


@pytest.mark.parametrize("between", [b"\0" * 4, b"x", b"\xfd7zXZ\1"])
def test_nothing_behind_a_stream_of_an_xz_file_is_left_out(between: bytes) -> None:
    with pytest.raises(lzma.LZMAError):
        unpacked(lzma.compress(b"a") + between + lzma.compress(b"b"), ".xz")


def test_what_programs_put_into_an_archive_is_no_second_file() -> None:
    beside = ["__MACOSX/._a.json", "__MACOSX/", "x/.DS_Store", ".DS_Store", "Thumbs.db", "x/desktop.ini"]
    assert unpacked(zipped("x/", "x/a.json", *beside, data=b"7"), ".zip") == b"7"
    assert unpacked(zipped("_a.json"), ".zip") == b"x"
    for names in (["a.json", "b.json"], beside, []):
        with pytest.raises(FileFault):
            unpacked(zipped(*names), ".zip")


@pytest.mark.parametrize(("beyond", "fits"), [(-1, True), (0, True), (1, False)])
@pytest.mark.parametrize("comment", [b"", b"c" * 65_535])
def test_a_directory_of_more_than_LONGEST_DIRECTORY_bytes_is_refused(
    monkeypatch: pytest.MonkeyPatch, beyond: int, fits: bool, comment: bytes
) -> None:
    out = io.BytesIO(zipped("a.json", *(f"x/{n}/" for n in range(20))))
    with zipfile.ZipFile(out, "a") as archive:
        archive.comment = comment
    size = int.from_bytes(out.getvalue()[-10 - len(comment) :][:4], "little")
    monkeypatch.setattr(file_sizes, "LONGEST_DIRECTORY", size - beyond)
    if fits:
        assert unpacked(out.getvalue(), ".zip") == b"x"
        return
    with pytest.raises(FileFault, match="entries"):
        unpacked(out.getvalue(), ".zip")


def test_a_packed_file_that_is_not_unpacked_is_judged_as_it_is() -> None:
    facts = {"path": "/landing", "format": "binaryFile", "maxRecordBytes": "1k"}
    table = BronzeTable.model_validate(facts, context={"landing": "/landing"})
    for suffix in GROWTH:
        sizes = {f"{size}{suffix}": size for size in (1023, 1024, 1025)}
        refused = oversized_files(None, table, list(sizes), sizes)  # type: ignore[arg-type]
        assert list(refused) == [f"1025{suffix}"]
