"""The golden files of messages are those of the code, and have messages only."""

from __future__ import annotations

import pytest

from scripts.messages import GOLDEN, ROOT, golden_files, is_message, module_messages

pytestmark = pytest.mark.unit


def test_golden_files_are_those_of_the_code() -> None:
    expected = golden_files()
    assert set(GOLDEN.rglob("messages.txt")) == expected.keys(), "write them by `make messages`"
    changed = [file for file, content in expected.items() if file.read_text(encoding="utf-8") != content]
    assert not changed, f"write {', '.join(str(file.relative_to(ROOT)) for file in changed)} by `make messages`"


def test_a_changed_word_changes_the_golden_text_and_a_renamed_variable_does_not() -> None:
    source = 'raise UserError(f"the file {name!r} cannot be read", hint="check its permissions first")\n'
    texts = ["the file {} cannot be read", "check its permissions first"]
    assert module_messages(source) == texts
    assert module_messages(source.replace("name", "path.name")) == texts
    assert module_messages(source.replace("cannot be", "was not")) != texts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unknown table {} in this pipeline", True), ("{}: the file was not read", True),
        ("duplicate name {}", True), ("add it to the SELECT list", True),
        ("SELECT {} FROM (SELECT {}, {} AS {} FROM {}) WHERE {}", False), ("0 0 1 1 *", False),
        ("CASE WHEN {} THEN {} ELSE false END", False), ("{} is {}", False),
    ],
)  # fmt: skip
def test_a_message_is_mostly_words(text: str, message: bool) -> None:
    assert is_message(text) is message
