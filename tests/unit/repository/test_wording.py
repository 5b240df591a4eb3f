"""The list of phrases to review has what it should, and what it should not have is not in it."""

from __future__ import annotations

import pytest

from scripts.wording import ROOT, Message, main, messages, pages, phrases

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("The records are judged again.", True), ("The records are re-evaluated.", False),
        ("0 rows came, 2 rows went", True), ("0 inserted, 2 deleted", False),
        ("It makes the whole table again.", True), ("It rebuilds the table, and again the next day.", False),
        ("A late patient is not too late.", True), ("It is too late.", False),
        ("what\nbecomes of it", True), ("What becomes a column", False),
        ("Nobody told them", True), ("an untold story", False),
        ("a stands twice", True), ("duplicate key a", False),
        ("--rule goes with --quarantine", True), ("--rule requires --quarantine", False),
        ("x is no column", True), ("x is no longer a column", False),
    ],
)  # fmt: skip
def test_a_phrase_is_listed_across_lines_and_only_as_words(text: str, listed: bool) -> None:
    assert bool(phrases(text)) is listed


def test_messages_are_texts_with_their_line_and_parts() -> None:
    source = (
        '"""A module of three words."""\ndef f():\n    """Do a thing."""\n    raise E("id", f"made {x!r} again", "b")\n'
    )
    assert messages(source) == [Message(4, "made {x} again", "made {} again")]


def test_messages_are_in_the_order_of_the_source_however_it_is_wrapped() -> None:
    wrapped = 'f(\n    g("a text inside of a call"),\n    "the text after the call",\n)\n'
    texts = ["a text inside of a call", "the text after the call"]
    assert [message.text for message in messages(wrapped)] == texts
    assert [message.text for message in messages(wrapped.replace("\n", ""))] == texts


def test_each_message_of_the_package_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--messages"])
    printed = capsys.readouterr().out
    assert "sluicegate/definition/yaml.py:" in printed
    assert "duplicate key {key}" in printed
    assert "CHANGELOG.md" not in [page.relative_to(ROOT).as_posix() for page in pages()]
