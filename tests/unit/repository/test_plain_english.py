"""Pages and messages say things as the trade does, and not in words of our own that have to be decoded.

A phrase gets on the list when a reader stumbled over it. What it should be is beside it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.unit

# Each home-made phrase as a pattern, and what to write.
BANNED = {
    r"judged? again|evaluated anew": "re-evaluated",
    r"appl(?:y|ied|ies) again": "reprocess",
    r"made (?:again|anew)|(?<!`)makes? (?:\S+ ){1,4}(?:again|anew)": "recomputed, rebuilt, a full refresh",
    r"anew": "from scratch, or again",
    r"told": "reported, shown, listed",
    r"tells? of": "reports, names, has",
    r"fates?": "action",
    r"becomes? of|became of": "what happens to, the status of",
    r"taken over|takes over": "imported",
    r"[Aa]sk(?:s|ed|ing)? the tables": "query the tables",
    r"rows? (?:would )?(?:came|went)": "inserted, deleted",
    r"[Aa]dds? up(?! to\b)": "reconciles",
    r"that is none|what is no column": "name the thing",
    r"a field more": "one more field",
    r"no counterpart": "no equivalent, not available",
    r"definition is right": "pipeline.yaml is valid",
    r"is to become": "say what is done",
    r"Who (?:comes|knows|wants)": "If you come",
    r"late \w+ is not too late": "late-arriving",
    r"so it is with": "the same holds for",
    r"go(?:es)? on behind": "continue after",
    r"a commit (?:each|a chunk)": "one commit for each ledger batch",
    r"says? otherwise": "name the option, or the default",
    r"to be had": "available",
    r"lost the place": "the progress is lost",
    r"mends? itself": "repairs itself",
    r"What stands": "name the thing",
    r"no more than chance": "noise",
}
PATTERN = re.compile("|".join(rf"\b(?:{phrase})\b" for phrase in BANNED))

# Pages that still have such phrases, each with what it is about; the next who works on one rewords it.
OPEN_PAGES = {
    "docs/bench/README.md": "made by the bench from the sentences of its cases",
}

# They quote what is not to be written.
ABOUT_WORDS = {"docs/glossary.md"}

# Documents that nobody reads in order to use the program.
FOLDERS = ("docs", "pipelines", "data", "examples")


def pages() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.md"))


def found(text: str) -> list[str]:
    """The banned phrases of a text, each with some words around it."""
    line = " ".join(text.split())
    return [line[max(0, one.start() - 40) : one.end() + 30] for one in PATTERN.finditer(line)]


def messages(text: str) -> str:
    """The strings of a module that are no docstrings, one below the other."""
    tree = ast.parse(text)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone)
    return " | ".join(node.value for node in strings if isinstance(node.value, str))


def named(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "page", [page for page in pages() if named(page) not in ABOUT_WORDS | OPEN_PAGES.keys()], ids=named
)
def test_a_page_has_no_banned_phrase(page: Path) -> None:
    assert found(page.read_text(encoding="utf-8")) == []


def test_no_message_has_a_banned_phrase() -> None:
    modules = sorted((ROOT / "sluicegate").rglob("*.py"))
    texts = {named(file): found(messages(file.read_text(encoding="utf-8"))) for file in modules}
    assert {name: phrases for name, phrases in texts.items() if phrases} == {}
    assert len(modules) > 200


def test_what_is_open_is_there() -> None:
    assert [name for name in {*OPEN_PAGES, *ABOUT_WORDS} if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("The records are judged again.", True), ("The records are re-evaluated.", False),
        ("0 rows came, 2 rows went", True), ("0 inserted, 2 deleted", False),
        ("It makes the whole table again.", True), ("It rebuilds the table, and again the next day.", False),
        ("A late patient is not too late.", True), ("It is too late.", False),
        ("what\nbecomes of it", True), ("What becomes a column", False),
        ("Nobody told them", True), ("an untold story", False),
    ],
)  # fmt: skip
def test_a_banned_phrase_is_found_across_lines_and_only_as_words(text: str, bad: bool) -> None:
    assert bool(found(text)) is bad


def test_docstrings_are_no_messages() -> None:
    assert messages('"""Told."""\ndef f():\n    """Told anew."""\n    raise E("this is", f"made {x} again")\n') == (
        "this is | made  |  again"
    )
