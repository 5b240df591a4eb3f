"""Elements of JSON arrays whose text is damaged, for executors."""

from __future__ import annotations

import json
import re


def damage(text: str) -> str | None:
    """Description of a damaged array; None if it does not begin with whole elements."""
    parts = elements(text)
    if len(parts) < 2 or parts[-1][1]:
        return None
    line = text[: len(text) - len(parts[-1][0])].count("\n") + 1
    return f"a damaged array: its first {len(parts) - 1} elements are in, the text from line {line} on is not JSON"


def elements(text: str) -> list[tuple[str, bool]]:
    """The elements of an array whose text is damaged: each complete one, and at last the rest with False.

    A text that is no array, or is whole, is such a rest, or has none.
    """
    blank, decoder = re.compile(r"[\s\ufeff]*"), json.JSONDecoder()

    def skip(at: int) -> int:
        found = blank.match(text, at)
        return found.end() if found else at

    at = start = skip(0)
    found: list[tuple[str, bool]] = []
    if text[start : start + 1] == "[":
        at = skip(start + 1)
        while text[at : at + 1] != "]":
            try:
                _, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):  # the latter of one that is nested very deep
                break
            after = skip(end)
            closed = text[after : after + 1]
            # At the end of the text a number may have lost digits; what ends with its own delimiter is complete.
            if closed not in (",", "]") and not (closed == "" and text[end - 1] in '}]"'):
                break
            found.append((text[at:end], True))
            at = skip(after + 1) if closed == "," else after
            if closed == "":
                break
    return found if text[at:].strip() == "]" and found else [*found, (text[at:], False)]
