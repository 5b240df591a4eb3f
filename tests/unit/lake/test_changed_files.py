"""Files of a table that are other than what was written, or are missing between others: a verification says so."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sluicegate.lake import layout
from sluicegate.lake.damage import checksums, damages, files
from tests.unit.lake.test_damage import data_of, filled

pytestmark = pytest.mark.unit

# Bytes of which Hadoop writes a checksum each.
EACH = 512
MANY = EACH * checksums.AT_ONCE


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of five commits, with a checkpoint of the third."""
    uri = layout.Lake(str(tmp_path / "a lake"), "p").table("silver", "s")
    filled(uri, 3)
    DeltaTable(uri).create_checkpoint()
    return filled(uri, 2)


def with_checksums(file: Path) -> Path:
    content = file.read_bytes()
    sums = [zlib.crc32(content[first : first + EACH]) for first in range(0, len(content), EACH)]
    said = b"crc\0" + struct.pack(">I", EACH) + b"".join(struct.pack(">I", one) for one in sums)
    file.with_name(f".{file.name}.crc").write_bytes(said)
    return file


@pytest.mark.parametrize("version", [1, 3])
def test_an_entry_between_others_is_missed_before_a_checkpoint_and_after_it(table: Path, version: int) -> None:
    assert files.damaged_files(table) == []
    damages.entry_of(table, version).unlink()
    [damage] = files.damaged_files(table)
    assert (damage.file, damage.what) == (str(damages.entry_of(table, version)), "is missing")


def test_old_entries_are_cleaned_away_and_the_first_after_a_checkpoint_is_missed(table: Path) -> None:
    for version in (0, 1, 2):
        damages.entry_of(table, version).unlink()
        assert files.damaged_files(table) == []
    damages.entry_of(table, 3).unlink()
    assert [damage.version for damage in files.damaged_files(table)] == [3]


def test_the_first_entries_are_missed_without_a_checkpoint(tmp_path: Path) -> None:
    table = filled(str(tmp_path / "t"), 3)
    damages.entry_of(table, 0).unlink()
    assert [damage.version for damage in files.damaged_files(table)] == [0]


@pytest.mark.parametrize("version", [1, 4])
def test_a_longer_data_file_is_no_more_what_was_written_than_a_shorter_one(table: Path, version: int) -> None:
    data = data_of(table, version)
    with data.open("ab") as file:
        file.write(b"PAR1")
    [damage] = files.damaged_files(table)
    assert (damage.file, damage.what[:4]) == (str(data), "has ")


def test_each_byte_is_told_of_which_there_is_a_checksum(table: Path) -> None:
    data, entry = with_checksums(data_of(table, 4)), with_checksums(damages.entry_of(table, 1))
    assert files.changed_files(table) == []
    for file in (data, entry):
        content = file.read_bytes()
        for place in (0, len(content) // 2, len(content) - 1):
            file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            [damage] = files.changed_files(table)
            assert damage.file == str(file)
        file.write_bytes(content)
    assert files.changed_files(table) == []


@pytest.mark.parametrize("size", [0, 1, EACH, EACH + 1, MANY, MANY + 1])
def test_files_of_more_than_AT_ONCE_checksums_are_compared(tmp_path: Path, size: int) -> None:
    file = tmp_path / "a file"
    file.write_bytes(bytes(number % 251 for number in range(size)))
    with_checksums(file)
    assert checksums.difference(file) == ""
    with file.open("ab") as opened:
        opened.write(b"x")
    assert checksums.difference(file) != ""
    if size:
        content = file.read_bytes()
        file.write_bytes(content[: size - 1])
        assert checksums.difference(file) != ""
    file.with_name(".a file.crc").unlink()
    assert checksums.difference(file) == ""
