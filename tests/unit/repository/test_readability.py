"""The figures of ``make check`` that keep the code from growing dense again, on modules whose figures are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import readability

pytestmark = pytest.mark.unit

STATEMENTS = '''
"""Text of two
lines."""
# a comment

def size(rows, limit):
    if rows > limit and limit:
        return limit
    return rows
'''
EXPRESSIONS = """
def size(one, limit):
    return limit if one > limit and limit else one

def found(held, *, self):
    return [row for row in held if row for _ in row]
"""


def package(folder: Path, **modules: str) -> Path:
    folder.mkdir()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_branch_counts_the_same_as_a_statement_and_as_an_expression(tmp_path: Path) -> None:
    written_out = readability.measurement(package(tmp_path / "a", statements=STATEMENTS))
    assert [(function.decisions, function.lines) for function in written_out.functions] == [(3, 4)]
    assert (written_out.lines, written_out.ternaries) == (4, 0)
    dense = readability.measurement(package(tmp_path / "b", expressions=EXPRESSIONS))
    assert sorted(function.decisions for function in dense.functions) == [3, 4]
    assert dense.ternaries == 1
    assert dense.figures()[readability.DECISIONS] == 175.0


def test_names_that_say_nothing_are_a_share_of_all_that_are_bound(tmp_path: Path) -> None:
    dense = readability.measurement(package(tmp_path / "b", expressions=EXPRESSIONS))
    # one, limit, held, row and _ are bound; a method's self is not counted, and what is only called neither.
    assert dense.names == {"one": 1, "limit": 1, "held": 1, "row": 1, "_": 1}
    assert dense.figures()[readability.EMPTY] == 40.0


@pytest.mark.parametrize("over", [False, True])
def test_a_figure_above_its_limit_fails_the_check_and_is_named(
    over: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = readability.words(readability.documents(readability.ROOT))
    monkeypatch.setitem(readability.LIMITS, readability.DOCUMENT_WORDS, words - over)
    assert readability.main(["--worst", "2"]) == int(over)
    printed = capsys.readouterr()
    assert printed.out.count(" decisions in ") == 2
    assert (readability.DOCUMENT_WORDS in printed.err) == over
