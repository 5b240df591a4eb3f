"""Escapes of characters that a terminal obeys, in text that is printed, logged or shown on a page."""

from __future__ import annotations

import re

# What a terminal or a log obeys, and what misleads who reads it: control characters, separators of lines, and marks
# that turn the direction of the text behind them. Surrogates, as in names of files that are no UTF-8, cannot be written
# at all.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_text(text: str, keep: str = "") -> str:
    """Escape, as in JSON, each character that a terminal would obey or a reader be misled by.

    Landed values, names of files, columns and notes may have any of them. Whatever prints text calls this:
    ``console.say``, tables, errors, what takes the output of jobs, notes of runs, and pages.

    Args:
        text: the text.
        keep: characters that are wanted there, such as the breaks between lines of a query.
    """
    return _OBEYED.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def _escape(char: str) -> str:
    return _SHORT.get(char) or f"\\u{ord(char):04x}"


def escape_lines(text: str) -> str:
    """Escape a text of several lines; those behind the first are indented alike, as none of ours is."""
    first, *following_lines = text.split("\n")
    indent = "    "
    if all(line.startswith(indent) for line in following_lines):
        indent = ""
    return "\n".join([escape_text(first), *(escape_text(f"{indent}{line}") for line in following_lines)])


def json_text(text: str) -> str:
    """Escape JSON so that nothing is left that a terminal would obey; it has the same values."""
    return escape_text(text, keep="\n")
