"""Read the elements of damaged JSON arrays, on executors."""

from __future__ import annotations

import json
import re


def damage(text: str) -> str | None:
    """Describe the damage of an array; None if it does not begin with complete elements."""
    parts = elements(text)
    if len(parts) < 2 or parts[-1][1]:
        return None
    line = text[: len(text) - len(parts[-1][0])].count("\n") + 1
    return f"a damaged array: its first {len(parts) - 1} elements were read, the text from line {line} on is not JSON"


def elements(text: str) -> list[tuple[str, bool]]:
    """Return the complete elements of a damaged array, and at last the rest with False.

    A text that is not an array is such a rest; an undamaged array has none.
    """
    blank, decoder = re.compile(r"[\s\ufeff]*"), json.JSONDecoder()

    def skip(place: int) -> int:
        parts = blank.match(text, place)
        if parts:
            return parts.end()
        return place

    place = start = skip(0)
    parts: list[tuple[str, bool]] = []
    if text[start : start + 1] == "[":
        place = skip(start + 1)
        while text[place : place + 1] != "]":
            try:
                _, end = decoder.raw_decode(text, place)
            except (ValueError, RecursionError):  # the latter of one that is nested very deep
                break
            after = skip(end)
            closed = text[after : after + 1]
            # At the end of the text a number may have lost digits; what ends with its own delimiter is complete.
            if closed not in (",", "]") and not (closed == "" and text[end - 1] in '}]"'):
                break
            parts.append((text[place:end], True))
            place = after
            if closed == ",":
                place = skip(after + 1)
            if closed == "":
                break
    if text[place:].strip() == "]" and parts:
        return parts
    return [*parts, (text[place:], False)]
