"""Nothing that landed moves a cursor, breaks a line or turns text around where it is printed."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluicegate import console, errors
from sluicegate.channel import Channel
from sluicegate.cli import options
from sluicegate.escapes import escape_lines, escape_text, json_text
from sluicegate.flow.table_report import TableReport

pytestmark = pytest.mark.unit

# By the names that Unicode's standard gives them, apart from the pattern of the code.
BIDI = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
MARKS = {"LEFT-TO-RIGHT MARK", "RIGHT-TO-LEFT MARK", "ARABIC LETTER MARK"}
OBEYED_CHARS = "".join(
    char
    for char in map(chr, range(0x1_0000))
    if unicodedata.category(char) in ("Cc", "Zl", "Zp", "Cs")
    or unicodedata.bidirectional(char) in BIDI
    or unicodedata.name(char, "") in MARKS
)
OBEYED = re.compile(f"[{re.escape(OBEYED_CHARS)}]")

HOSTILE = st.text(st.one_of(st.characters(), st.sampled_from(OBEYED_CHARS)))

FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(HOSTILE)
def test_a_text_has_nothing_left_that_a_terminal_obeys(text: str) -> None:
    shown = escape_text(text)
    assert not OBEYED.search(shown)
    shown.encode()  # which a surrogate cannot be
    if not OBEYED.search(text) and not re.search("[\u206a-\u206f]", text):
        assert shown == text


@pytest.mark.parametrize("text", ["Müller\u00a0é 心拍 👩\u200d⚕️", "C:\\temp", "‘a’ “b” – c", "עברית", ""])
def test_what_people_write_stays(text: str) -> None:
    assert escape_text(text) == text


def test_escapes_are_those_of_json() -> None:
    assert escape_text("a\x1b[0m\r\n\t\x7f\x85\u2066\udc80b") == r"a\u001b[0m\r\n\t\u007f\u0085\u2066\udc80b"
    assert escape_text("a\nb\tc\rd", keep="\n\t") == "a\nb\tc\\rd"


@given(st.dictionaries(HOSTILE, HOSTILE, max_size=3))
def test_json_has_the_same_values(facts: dict[str, str]) -> None:
    for indent in (None, 2):
        shown = json_text(json.dumps(facts, ensure_ascii=False, indent=indent))
        assert json.loads(shown) == facts
        assert not OBEYED.search(shown.replace("\n", ""))


@given(HOSTILE)
def test_no_line_of_a_text_passes_for_another(text: str) -> None:
    _, *others = escape_lines(text).split("\n")
    assert all(line.startswith("    ") for line in others)


@pytest.mark.parametrize("indent", ["", "    "])
def test_a_mark_below_a_line_stays_below_its_word(indent: str) -> None:
    shown = escape_lines(f"line 1\n{indent}select amunt\n{indent}       ^^^^^")
    assert shown == "line 1\n    select amunt\n           ^^^^^"


def hostile_report(text: str) -> TableReport:
    sample = {"row": {text: text}, "file": f"/in/{text}", "rules": [text]}
    return TableReport(
        "t", "bronze", "written", why=text, read=3, written=3, failed={text: text}, refused={text: text},
        warnings=[text], samples=[sample], expectations={"rule": {"passed": 1, "failed": 2}},
    )  # fmt: skip


@FEW
@given(HOSTILE)
def test_a_report_has_as_many_lines_whatever_has_landed(capsys: pytest.CaptureFixture[str], text: str) -> None:
    def printed(text: str) -> list[str]:
        report = hostile_report(text)
        console.say(report.line(), *report.remarks())
        return capsys.readouterr().out.split("\n")

    lines = printed(text or "x")
    assert len(lines) == len(printed("x"))
    assert not any(OBEYED.search(line) for line in lines)
    assert sum(line.startswith("  bronze t ") for line in lines) == 1


@FEW
@given(HOSTILE)
def test_a_table_and_its_json_show_hostile_values(capsys: pytest.CaptureFixture[str], text: str) -> None:
    options.show_table(["a", text], [[text, 3]])
    assert not OBEYED.search(capsys.readouterr().out.replace("\n", ""))
    options.show_json({"a": text})
    shown = capsys.readouterr().out
    assert not OBEYED.search(shown.replace("\n", ""))
    assert json.loads(shown) == {"a": text}


@given(HOSTILE)
def test_an_error_has_its_lines_and_its_code(text: str) -> None:
    error = errors.SourceError(text, where=errors.Where(text, text, 3), cause=text, hint=text)
    first, *others = error.for_people().split("\n")
    assert first == f"error[SG207]: {escape_text(text)}"
    assert not any(OBEYED.search(line) for line in others)
    assert all(line.startswith("  ") for line in others)
    assert json.loads(json.dumps(error.as_dict()))["message"] == text


@given(HOSTILE)
def test_the_output_of_a_job_is_passed_on_escaped(text: str) -> None:
    def refuse(message: str) -> None:
        raise AssertionError(f"{message!r} is no message")

    with Channel() as channel:
        lines = list(channel.lines([f"{text}\n"], refuse))
    assert not any(OBEYED.search(line) for line in lines)


@given(HOSTILE)
def test_a_page_shows_values_in_their_order(text: str) -> None:
    html: Any = pytest.importorskip("sluicegate.airflow.page.html")
    shown = html.ENVIRONMENT.from_string("<p title='{{ a }}'>{{ a }}</p>{{ b }}").render(a=text, b=3)
    assert not OBEYED.search(shown.replace("\n", "").replace("\t", ""))
    assert shown.endswith("</p>3")
    assert shown.count("<") == 2
