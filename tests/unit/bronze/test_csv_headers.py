"""The names in the header of a CSV file, and why one cannot be read; no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluicegate.bronze import file_headers
from sluicegate.bronze.text import text_decoder

pytestmark = pytest.mark.unit


def header(tmp_path: Path, data: bytes, **options: str) -> dict[str, Any]:
    file = tmp_path / "landed.csv"
    file.write_bytes(data)
    return file_headers.header(str(file), options, ",")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\nid,Stra\xfce\n1,2\n", ["byte 0xFC in line 2", "invalid in UTF-8", "option encoding", "windows-1252"]),
        ("\ufeffid,n\n1,2\n".encode("UTF-16-LE"), ["byte 0xFF in line 1", "UTF-16", "option encoding"]),
    ],
)
def test_a_header_in_another_encoding_has_one_reason_whoever_reads_it(
    tmp_path: Path, data: bytes, words: list[str]
) -> None:
    why = header(tmp_path, data)["error"]
    assert all(word in why for word in words), why
    how = text_decoder.Decoding("UTF-8", "csv", False, False, "", True, "", str(tmp_path / "copies"), "MARK")
    assert text_decoder.decode(str(tmp_path / "landed.csv"), *how)["error"] == why


def test_a_header_in_UTF_16_without_a_mark_makes_no_columns(tmp_path: Path) -> None:
    assert "UTF-16" in header(tmp_path, "id,n\n1,2\n".encode("UTF-16-LE"))["error"]


@pytest.mark.parametrize(
    ("text", "options", "names"),
    [
        ('# x\n\n  \na,"b\nc",d\n1\n', {"comment": "#"}, ["a", "b"]),
        ('# x\n\n  \na,"b\nc",d\n1\n', {"comment": "#", "multiline": "true"}, ["a", "b\nc", "d"]),
        ("\ufeffé, b \n1,2\n", {"ignoreleadingwhitespace": "true"}, ["é", "b "]),
        (" a, b \n1,2\n", {"ignoretrailingwhitespace": "true"}, [" a", " b"]),
        ("", {}, []),
    ],
)
def test_names_are_those_of_the_first_line_that_is_no_comment(
    tmp_path: Path, text: str, options: dict[str, str], names: list[str]
) -> None:
    assert header(tmp_path, text.encode(), **options) == {"fields": names}


def test_bytes_that_are_no_text_behind_the_header_are_not_its_fault(tmp_path: Path) -> None:
    assert header(tmp_path, b"a,b\n1,\xfc\n", multiline="true") == {"fields": ["a", "b"]}
