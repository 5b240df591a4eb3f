"""Identifiers are named by the words of ``docs/glossary.md``, and not by those that it calls older.

Whoever reads the code should find a thing under the name that Spark, Delta Lake or the glossary has for it. So no
function, class, parameter, variable, attribute or module is called by an older word. Words within texts are not looked
at: messages are plain English, in which a file may well be read again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("sluicegate", "spark_jobs", "dags", "scripts", "bench")

# Each older word that no identifier may have as a part, in all its forms, and the word of the glossary.
BANNED = {
    "account": "reconciliation",
    "again": "reprocess",
    "anew": "full refresh",
    "asked": "request",
    "beside": "side tables",
    "conform": "declared columns",
    "cut": "materialize",
    "fate": "disposition",
    "judge": "evaluate",
    "kept": "aggregate state",
    "look": "discovery",
    "mark": "offset",
    "nearby": "data skipping",
    "reach": "offset",
    "signed": "row delta",
    "tie": "join key",
    "told": "expected rows",
    "upkeep": "refresh strategy",
    "way": "refresh strategy",
}
FORMS = {
    "accounts": "account",
    "asks": "asked",
    "conformed": "conform",
    "conforms": "conform",
    "cuts": "cut",
    "cutting": "cut",
    "fates": "fate",
    "judged": "judge",
    "judges": "judge",
    "judging": "judge",
    "looked": "look",
    "looking": "look",
    "looks": "look",
    "marked": "mark",
    "marks": "mark",
    "reached": "reach",
    "reaches": "reach",
    "tied": "tie",
    "ties": "tie",
    "tells": "told",
    "ways": "way",
}

# Banned in the name of a type only: a variable of names that are known says what it has in honest English.
BANNED_IN_TYPES = {"known": "ledger index"}

# Older words of the glossary that identifiers still have, and why.
OPEN = {
    "chunk": "the column `_chunk`, which users have, and what is computed from it",
    "outcome": "the table `_outcome` of each bronze table",
    "rule": "an expectation as reports and messages of a run have it: `rules`",
    "difference": "everyday English for what two tables do not share; the tests of pipelines show it",
    "partial": "a refresh strategy as commits have it",
    "groups": "a refresh strategy as commits have it, and the groups of a query",
    "whole": "a refresh strategy and a state of a flow, as commits and reports have them",
    "rebuild": "the state `rebuilt` of a report",
}

# Identifiers that keep an older word, by their module, and why.
EXCEPTIONS = {
    (
        "sluicegate/airflow/operators/reconcile.py",
        "Account",
    ): "Airflow stores and shows the class of a task by its name",
}

Definition = tuple[int, str, bool]


def definitions(tree: ast.AST) -> Iterator[Definition]:
    """Line and name of all that a module defines, and whether it is a type."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef():
                yield node.lineno, node.name, True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name, False
            case ast.arg():
                yield node.lineno, node.arg, False
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id, False
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr, False
            case ast.alias(asname=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name, False
            case ast.MatchMapping(rest=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name, False


def parts(name: str) -> list[str]:
    """The words of an identifier: ``_WithRowDeltas`` and ``with_row_deltas`` have the same."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def offences(text: str, path: str) -> Iterator[str]:
    """Identifiers of a module that have an older word, with the place and the word to use."""
    stem = Path(path).stem
    for line, name, is_type in sorted([*definitions(ast.parse(text)), (1, stem, False)]):
        for part in parts(name) if (path, name) not in EXCEPTIONS else ():
            word = FORMS.get(part, part)
            if better := BANNED.get(word) or (BANNED_IN_TYPES.get(word) if is_type else None):
                yield f"{path}:{line} {name}: `{part}` is an older word, see `{better}` in docs/glossary.md"


def glossary() -> dict[str, set[str]]:
    """Each word of the glossary's part on the code with its older words."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    lines = page.partition("\n## In the code\n")[2].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {
        word: {old.strip() for old in older.split(",") if old.strip()}
        for word, _, older in rows
        if word not in ("word", "---")
    }


def test_no_identifier_has_an_older_word() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    found = [
        offence
        for file in files
        for offence in offences(file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix())
    ]
    assert len(files) > 200
    assert not found, "\n" + "\n".join(found)


def test_each_banned_word_is_an_older_word_of_the_glossary_beside_the_one_to_use() -> None:
    words = glossary()
    for old, better in (BANNED | BANNED_IN_TYPES).items():
        assert old in words.get(better, set()), f"docs/glossary.md does not have `{old}` as an older word of `{better}`"


def test_each_older_word_of_the_glossary_is_banned_or_open_for_a_reason() -> None:
    single = {old for older in glossary().values() for old in older if " " not in old}
    assert single == BANNED.keys() | BANNED_IN_TYPES.keys() | OPEN.keys()
    assert not OPEN.keys() & BANNED.keys()


def test_exceptions_are_there() -> None:
    for path, name in EXCEPTIONS:
        assert name in {found for _, found, _ in definitions(ast.parse((ROOT / path).read_text(encoding="utf-8")))}


def test_forms_are_those_of_banned_words() -> None:
    assert set(FORMS.values()) <= BANNED.keys()
    assert not FORMS.keys() & BANNED.keys()


SOURCE = '''
from a import thing as judge_of
import told
class KnownFiles: known = 1
def again(told_by, *ways, asked=None, **_kept):
    """Kept again, as it was told."""
    self.mark, fine = 1, told.marks
    found = [tie for tie in x if (cuts := tie)]
    lambda fate: fate
    with y as reached: pass
    for anew in z: pass
    try: pass
    except E as beside: pass
    match v:
        case {"a": upkeep, **signed}: pass
        case [*conformed]: pass
        case C() as looks_like: pass
    async def account(): pass
    remark, away, beneath, keep, lookup, marker = asked.look, "told", 1, 2, 3, 4
'''


def test_older_words_are_found_wherever_a_name_is_defined() -> None:
    found = {(int(one.split()[0].rpartition(":")[2]), one.split()[1].rstrip(":")) for one in offences(SOURCE, "a/b.py")}
    assert found == {
        (2, "judge_of"), (4, "KnownFiles"), (5, "again"), (5, "told_by"), (5, "ways"), (5, "asked"), (5, "_kept"),
        (7, "mark"), (8, "tie"), (8, "cuts"), (9, "fate"), (10, "reached"), (11, "anew"), (13, "beside"),
        (15, "upkeep"), (15, "signed"), (16, "conformed"), (17, "looks_like"), (18, "account"),
    }  # fmt: skip
    [what] = offences("", "sluicegate/silver/judging.py")
    assert what == (
        "sluicegate/silver/judging.py:1 judging: `judging` is an older word, see `evaluate` in docs/glossary.md"
    )
