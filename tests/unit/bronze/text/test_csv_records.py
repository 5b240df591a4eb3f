"""A CSV text is cut into records by RFC 4180, and what contradicts itself is not believed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from sluicegate.bronze.text import csv_check, csv_files
from sluicegate.bronze.text.csv_records import Grammar, Records
from sluicegate.definition import BronzeTable

pytestmark = pytest.mark.unit

Cut = list[tuple[str, bool]]


def cut(text: str, columns: int, grammar: Grammar | None = None) -> Cut:
    lines = list(io.StringIO(text, newline=""))
    return list(Records(lines, columns, grammar or Grammar()).split(header=True))


def good(text: str, columns: int) -> list[str]:
    return [record for record, sound in cut(text, columns) if sound]


@pytest.mark.parametrize(
    "record",
    [
        'a,"x ""y""",1', 'a,"C:\\dir\\",1', 'a,5" pipe,1', '"","",""', 'a,"x\ny",1', 'a,"x\r\n\r\ny, z",1',
        'a,"1,2\n3,4,5\n6",1',  # other values in a value
        'a,"id,t,n\n1,b,2\n3,c,4",1',  # a CSV in a value
        'a,b,"Dear Sir\nI write, to\nyou"', '"x"  ,y,1',
    ],
)  # fmt: skip
def test_a_record_whose_quotes_agree_is_one(record: str) -> None:
    for ends in ("\n", "\r\n"):
        assert cut(f"id,t,n{ends}{record}{ends}1,y,2{ends}", 3) == [(record, True), ("1,y,2", True)]


def test_a_quote_that_is_never_closed_costs_its_line_alone() -> None:
    rows = [f"{n},w,{n}" for n in range(50)]
    assert cut("\n".join(["id,t,n", '7,"open,8', *rows]), 3) == [('7,"open,8', False), *[(row, True) for row in rows]]


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "  \n", "# all\n", "\n# all"])
@pytest.mark.parametrize("quote", ["", '5,"open,8\n'])
def test_blank_lines_and_comments_at_the_end_are_no_records(end: str, quote: str) -> None:
    """Whether or not a quote is open before them, for which alone they would be lines of a text."""
    rows = [f"{n},w,{n}" for n in range(20)]
    text = "\n".join(["id,t,n", *rows[:10], f"{quote}{rows[10]}", *rows[11:]]) + f"\n{end}"
    records = cut(text, 3, Grammar(comment="#"))
    assert [record for record, sound in records if sound] == rows
    assert [record for record, sound in records if not sound] == [quote.strip()] * bool(quote)


def test_of_two_stray_quotes_none_swallows_what_is_between_them() -> None:
    rows = [f"{n},w,{n}" for n in range(50)]
    text = "\n".join(["id,t,n", *rows[:20], '7,"open,8', *rows[20:40], '9,inch",10', *rows[40:]]) + "\n"
    assert good(text, 3) == rows
    text = text.replace('9,inch",10', '9,"inch,10')
    assert good(text, 3) == rows


@pytest.mark.parametrize("halves", ['1,"two\nhalves', '1,"two\n"7" halves", x'])
def test_half_a_record_is_none(halves: str) -> None:
    assert good(f"id,t\n1,a\n{halves}\n", 2) == ["1,a"]


def test_the_tail_of_a_text_in_which_a_quote_is_not_doubled_is_no_record() -> None:
    text = 'id,t,n\n1,"line\nsaid "hi" to\nme",5\n2,x,7\n'
    assert cut(text, 3) == [('1,"line\nsaid "hi" to', False), ('me",5', False), ("2,x,7", True)]


def test_lines_of_a_text_are_not_taken_for_records() -> None:
    text = 'id,t\n1,a\n2,b\n3,"Hello\nI am fine, thanks\nsee you, then"\n4,c\n'
    assert good(text, 2) == ["1,a", "2,b", '3,"Hello\nI am fine, thanks\nsee you, then"', "4,c"]


def test_another_quote_separator_escape_and_comment() -> None:
    grammar = Grammar("||", "'", "\\", "#")
    text = "id||t\n1||'it\\'s || \n so'\n# '\n2||x\n"
    assert cut(text, 2, grammar) == [("1||'it\\'s || \n so'", True), ("2||x", True)]
    assert [sound for _, sound in cut('id,t\n1,"x\n2,y"\n', 2, Grammar(quote=""))] == [True, True]


@pytest.mark.parametrize(
    ("text", "several", "line"),
    [
        ('a,b\n1,"x"\n', "false", None), ("a,b\n1,2\r\n3,4\n", "false", None), ('a,b\n1,"x\ny"\n', "true", None),
        ('a,b\r\n1,"x\ny"\r\n', "true", None), ('a,b\n1,"x\r\ny"\n', "true", 3),
        ('a,b\n1,5" x\n', "false", None), ('a,b\n1,"x\ny"\n', "false", 2),
        ("a,b\n1,2\r\n3,4\n", "true", 2), ("  \na,b\n1,2\n", "true", 1), ('a,b\n1,"x\n2,y\n', "true", 3),
        ('a,b\n1,"x" y\n', "false", 2), ('a,b\n"x\n",3,4\n', "true", 3), ('"a\nb",c\r\n1,2\r\n', "true", 2),
    ],
)  # fmt: skip
def test_what_spark_reads_in_another_way_is_noticed(tmp_path: Path, text: str, several: str, line: int | None) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode())
    found = csv_check.find_trouble(str(path), {"header": "true", "multiline": several})
    assert (found and found["line"]) == line
    path.write_bytes(text.encode("utf-16"))
    found = csv_check.find_trouble(str(path), {"header": "true", "multiline": several, "encoding": "UTF-16"})
    assert (found and found["line"]) == line


@pytest.mark.parametrize("before", [7, 8, 9])
def test_a_quote_is_seen_in_any_BLOCK(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    monkeypatch.setattr(csv_check, "BLOCK", 8)
    path = tmp_path / "x.csv"
    path.write_text("a" * before + '\n"x\n')
    assert csv_check.find_trouble(str(path), {})


@pytest.mark.parametrize(("lines", "columns"), [(4, 3), (5, 2)])
def test_the_usual_number_of_values_is_that_of_SAMPLE_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, columns: int
) -> None:
    monkeypatch.setattr(csv_check, "SAMPLE", lines)
    path = tmp_path / "x.csv"
    path.write_text("1,2,3\n1,2,3\n1,2\n1,2\n1,2\n" + '"x\n')
    found = csv_check.find_trouble(str(path), {})
    assert found
    assert found["columns"] == columns


@pytest.mark.parametrize(("most", "fails"), [(15, True), (16, False), (17, False)])
def test_a_file_of_more_than_MOST_BYTES_fails_with_its_line(
    monkeypatch: pytest.MonkeyPatch, most: int, fails: bool
) -> None:
    monkeypatch.setattr(csv_files, "MOST_BYTES", most)
    table = BronzeTable.model_validate({"path": "/x", "format": "csv"})
    damaged: dict[str, str] = {}
    files = csv_files.CsvFiles(None, table, {}, {"x": 16}, damaged)  # type: ignore[arg-type]
    about = {"x": {"trouble": {"line": 7, "why": "a quote is open", "minor": False, "characters": 16, "begins": True}}}
    assert files.files_to_split(about) == (set() if fails else {"x"})
    assert [reason.split(",")[0] for reason in damaged.values()] == (["line 7: a quote is open"] if fails else [])


@pytest.mark.parametrize("grammar", [Grammar(), Grammar(escape="\\"), Grammar(separator="||"), Grammar(leading=True)])
def test_no_group_of_a_pattern_is_possessive(grammar: Grammar) -> None:
    """Python 3.11.2, which Debian 12 has, cut right records at their line breaks by such groups."""
    for pattern in (grammar.cell, grammar.line, grammar.opening, grammar.inside, grammar.closing):
        assert ")*+" not in pattern.pattern


@pytest.mark.parametrize("value", ['"' + 'a""' * 100_000, '"a b",' * 50_000 + '"x', '"' * 100_001])
def test_a_long_line_costs_what_it_is_long(value: str) -> None:
    """Each of these took a second at most, where a pattern that tries in vain takes hours."""
    assert Grammar().closes(value) is False
    Grammar().stays_open(value)
