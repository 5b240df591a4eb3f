"""Of a landed text exactly the part is read that the definition names, wherever its blocks end."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.bronze.file_sizes import FileFault
from sluicegate.bronze.text import excerpts
from sluicegate.bronze.text.csv_records import Grammar

pytestmark = pytest.mark.unit

TEXT = 'Sales "of" 2024\r\nBerlin,,\r\n\r\nid,name,amount\r\n1,"a,\nb",2\r\n'


def skip(text: str, count: int, size: int = 1 << 20, separator: str = ",") -> str:
    parts = [text[place : place + size] for place in range(0, len(text), size)]
    return "".join(excerpts.skip_lines(parts, count, Grammar(separator)))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 1000])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_skipped_lines_are_the_first_ones_alone(size: int, ending: str) -> None:
    text = TEXT.replace("\r\n", ending)
    assert skip(text, 3, size) == text[text.index("id,") :]
    assert skip("", 3, size) == ""


@pytest.mark.parametrize(
    ("text", "count", "separator"),
    [
        ("id,x\n1,2\n", 1, ","),
        ("Title\nid,x\n1,2\n", 2, ","),
        ("Title\n\nid,x\n", 4, ","),
        (',a,b\n,"1,5",2\n,3,4\n', 1, ","),
        ("a;b\n1;2\n", 1, ";"),
    ],
)
def test_a_skipped_line_is_neither_a_header_nor_a_record(text: str, count: int, separator: str) -> None:
    with pytest.raises(FileFault):
        skip(text, count, separator=separator)


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda v: st.lists(v) | st.dictionaries(st.text(), v),
)


@given(st.dictionaries(st.text(), VALUES, min_size=1), st.randoms(use_true_random=False), st.booleans())
def test_the_value_of_a_field_is_cut_out_as_it_is_written(
    around: dict[str, object], rng: random.Random, spaced: bool
) -> None:
    text = json.dumps(around, indent=1) if spaced else json.dumps(around, ensure_ascii=False)
    name = rng.choice(list(around))
    start, end = excerpts.json_extent(text, [name])
    assert json.loads(text[start:end]) == around[name]
    outer = f'\ufeff {{"a": ["{{", 1], "b": {text}}}'
    start, end = excerpts.json_extent(outer, ["b", name])
    assert json.loads(outer[start:end]) == around[name]


@pytest.mark.parametrize(
    "text",
    ["[1]", "7", "", '{"b": 1}', '{"b": {"a": 1}}', '{"b": "a', "{a: 1}", '{"a": [1]} {"a": [2]}', '{"a": 1, "a": 2}'],
)
def test_a_text_without_the_field_is_at_fault(text: str) -> None:
    with pytest.raises(FileFault):
        excerpts.json_extent(text, ["a"])


def test_a_value_that_is_cut_off_ends_with_its_text() -> None:
    text = '{"a": [{"b": 1}, {"b"'
    assert excerpts.json_extent(text, ["a"]) == (6, len(text))


@pytest.mark.parametrize("escaped", [r"\"x", r"\\", r"\"["])
@pytest.mark.parametrize("end", ["", "\\"])
def test_a_text_that_is_never_closed_is_gone_through_once(escaped: str, end: str) -> None:
    text = '["' + escaped * 100_000 + end
    assert excerpts.value_end(text) == len(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("id,amount\n1,5\n", 2),
        ('a,b\n1,2\n7,"x\ny"\n', 2),
        ('a,b,c\n1,2,3\n7,"x"y,5\n', 2),
        ('a,b,c\n1,2,3\n7,"x\n', 2),
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_a_record_is_never_left_out_for_lack_of_one_below(text: str, count: int, size: int) -> None:
    with pytest.raises(FileFault, match="line 1"):
        skip(text, count, size)


@pytest.mark.parametrize("below", ["", "\n\n", "# nothing\n"])
def test_titles_without_records_are_skipped(below: str) -> None:
    grammar = Grammar(comment="#")
    assert "".join(excerpts.skip_lines([f"Sales,\n\n{below}"], 2, grammar)) == below


def test_a_certain_header_lets_titles_have_as_many_values() -> None:
    columns = ["time", "us_gross"]
    for header in ("time,US Gross\n", '"US Gross","time",more\n'):
        table = header + "1,2,3\n"
        assert "".join(excerpts.skip_lines(["Station,Berlin,X\n" + table], 1, Grammar(), columns)) == table
        for above in (header, "time,usGross\n"):
            with pytest.raises(FileFault):
                list(excerpts.skip_lines([above + table], 1, Grammar(), columns))
    with pytest.raises(FileFault):  # the header itself is skipped
        list(excerpts.skip_lines(["time,US Gross\n1,2\n"], 1, Grammar(), columns))
    with pytest.raises(FileFault):  # no header is known by names
        list(excerpts.skip_lines(["Station,Berlin\ntime,US Gross\n"], 1, Grammar()))


@pytest.mark.parametrize("line", ["\n", "# nothing\n", "x\n"])
@pytest.mark.parametrize(("beyond", "fits"), [(-1, True), (0, True), (1, False)])
def test_the_first_record_has_to_end_in_LONGEST_HEAD_characters(
    monkeypatch: pytest.MonkeyPatch, line: str, beyond: int, fits: bool
) -> None:
    head, end = "Sales\n" + line * 20, ""
    if line == "x\n":
        head, end = f'Sales\n7,"{line * 20}', '"'
    monkeypatch.setattr(excerpts, "LONGEST_HEAD", len(head) - beyond)
    parts = [head, f"{end}\n1,2\n3,4\n", *["3,4\n"] * 9]
    if fits:
        assert "".join(excerpts.skip_lines(parts, 1, Grammar(comment="#"))) == "".join(parts)[len("Sales\n") :]
        return
    read = iter(parts)
    with pytest.raises(FileFault):
        list(excerpts.skip_lines(read, 1, Grammar(comment="#")))
    assert len(list(read)) == len(parts) - 1
