"""Files are decoded into copies as Python decodes them, and undecodable bytes cost their record alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from sluicegate.bronze.text import text_decoder
from sluicegate.definition import encodings

pytestmark = pytest.mark.unit


def decode(tmp_path: Path, data: bytes, encoding: str, form: str = "csv", **how: Any) -> tuple[str | None, list[str]]:
    """Text of the copy of a file, None if it needs none, and its bad records."""
    file = tmp_path / "landed"
    file.write_bytes(data)
    settings = {"whole": False, "several": False, "separator": "", "header": False, "comment": ""} | how
    found = text_decoder.decode(str(file), encoding, form, *settings.values(), str(tmp_path / "copies"), "MARK")
    if "error" in found:
        raise AssertionError(found["error"])
    bad = Path(found["bad"]).read_text().split() if found["bad"] else []
    text = Path(found["copy"]).read_bytes().decode() if found["copy"] else None
    return text, [bytes.fromhex(line).decode() for line in bad]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r", "#"])
@pytest.mark.parametrize("encoding", ["windows-1252", "UTF-16LE", "UTF-8", "Shift_JIS", "UTF-32BE"])
def test_bad_bytes_at_any_place_cost_their_line_alone(tmp_path: Path, encoding: str, ending: str) -> None:
    rng = random.Random(f"{encoding}{ending}")
    codec = encodings.find(encoding).codec  # type: ignore[union-attr]
    wrong = {"windows-1252": b"\x81", "UTF-16LE": b"\x00\xd8", "UTF-8": b"\xfc", "Shift_JIS": b"\xfd",
             "UTF-32BE": b"\x00\x11\x00\x00"}[encoding]  # fmt: skip
    lines = [f"{n},abc" + "x" * rng.randint(0, 300) for n in range(20_000)]  # several blocks of a megabyte
    bad = {0, 19_999, *rng.sample(range(20_000), 5)}
    data = b"".join(
        line.encode(codec) + (wrong if n in bad else b"") + ending.encode(codec) for n, line in enumerate(lines)
    )
    text, corrupt = decode(tmp_path, data, encoding, separator="#" if ending == "#" else "")
    assert text == "".join(line + ending for n, line in enumerate(lines) if n not in bad)
    shown = "".join(f"\\x{byte:02x}" for byte in wrong)
    assert corrupt == [lines[n] + shown for n in sorted(bad)]


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-16"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_utf_16_is_read_by_its_mark_or_its_zeros(tmp_path: Path, codec: str, mark: str) -> None:
    text = "id,t\r\n1,一Ā\u0a0a\r\n"
    data = (("" if codec == "utf-16" else mark) + text).encode(codec)
    assert decode(tmp_path, data, "UTF-16") == (text, [])


@pytest.mark.parametrize(
    ("text", "lone"),
    [(r"\ud800", True), (r"\uD83D\uDE00", False), (r"\\ud800", False), (r"\\\ud800", True), (r"\ude00\ud83d", True),
     (r"\ud83d\\ude00", True), (r"\ud83d\ud83d\ude00", True), (r"\\ud83d\ude00", True), ("\\u0041", False)],
)  # fmt: skip
def test_half_of_a_surrogate_pair_is_no_character_of_json(tmp_path: Path, text: str, lone: bool) -> None:
    line = f'{{"a":"{text}"}}'
    found, bad = decode(tmp_path, f'{line}\n{{"a":1}}\n'.encode(), "UTF-8", "json")
    assert (found, bad) == (('{"a":1}\n', [line]) if lone else (None, []))


@pytest.mark.parametrize(("depth", "is_corrupt"), [(-1, False), (0, False), (1, True)])
def test_json_of_more_than_DEEPEST_levels_is_corrupt(tmp_path: Path, depth: int, is_corrupt: bool) -> None:
    levels = text_decoder.DEEPEST + depth
    line = "[" * levels + '"[[]{"' + "]" * levels
    text, bad = decode(tmp_path, f"{line}\n1\n".encode(), "UTF-8", "json")
    assert (text, bad) == (("1\n", [line]) if is_corrupt else (None, []))


def test_a_json_value_that_is_nested_too_deep_is_corrupt_alone(tmp_path: Path) -> None:
    deep, wide = "[" * 600 + "]" * 600, "[" + "[]," * 600 + "1]"
    text, bad = decode(tmp_path, f'{{"a":{deep}}}\n{{"a":{wide}}}\n'.encode(), "UTF-8", "json")
    assert (text, bad) == (f'{{"a":{wide}}}\n', [f'{{"a":{deep}}}'])
    whole = "[" * 1100 + "]" * 1100
    assert decode(tmp_path, whole.encode(), "UTF-8", "json", whole=True) == ("", [whole])


def test_of_an_array_the_other_elements_are_kept(tmp_path: Path) -> None:
    text, bad = decode(tmp_path, b'[{"a":"x"}, {"a":"\xfc"},\n {"a":1}]', "UTF-8", "json", whole=True)
    assert (text, bad) == ('[{"a":"x"},{"a":1}]', ['{"a":"\\xfc"}'])
    assert decode(tmp_path, b'{"a":"\xfc"}', "UTF-8", "json", whole=True) == ("", ['{"a":"\\xfc"}'])


def test_valid_text_needs_no_copy_whatever_characters_it_has(tmp_path: Path) -> None:
    assert decode(tmp_path, "a,\ufffd\n\0,\ufeff\n".encode(), "UTF-8") == (None, [])


def test_a_header_with_such_a_byte_is_the_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"its header has the byte 0xFC in line 2.*encoding"):
        decode(tmp_path, b"\nid,Stra\xfce\n1,2\n", "UTF-8", header=True)
    with pytest.raises(AssertionError, match=r"^its header has the byte 0xFF in line 1.*UTF-16.*encoding"):
        decode(tmp_path, "\ufeffid,n\n1,2\n".encode("UTF-16-LE"), "UTF-8", header=True)
    with pytest.raises(AssertionError, match=r"byte 0xFF in line 1, which is invalid in UTF-8; if"):
        decode(tmp_path, b"id\xff,n\n1,2\n", "UTF-8", header=True)


def test_every_encoding_is_found_by_all_of_its_names_and_ascii_is_decoded() -> None:
    for name in ("windows-1252", "CP1252", "Shift_JIS", "sjis", "latin1", "IBM850", "x-MacRoman", "utf8"):
        found = encodings.find(name)
        assert found is not None, name
        assert text_decoder.decoder(found.name, b"").decode(b"a,1", True) == "a,1"
    ebcdic = text_decoder.decoder("IBM037", b"")
    assert ebcdic.decode("é,1".encode("cp037") + b"\x15") == "é,1\n"  # as Java: for Python it is U+0085
