"""Text encodings by the names that Java has for them, which are those of Spark's option ``encoding``.

The table ``encodings.tsv`` has all of Java 17. Encodings of one byte a character are decoded as Java does it, by their
own 256 characters where Python has no codec or another one; those of several bytes by Python's codec of that name.
https://docs.oracle.com/en/java/javase/17/intl/supported-encodings.html
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("encodings.tsv")

# What comes before the 256 characters of an encoding, and what stands for one that Python cannot decode.
CHARACTERS, UNREADABLE = "=", "-"

# Names of other programs for encodings that Java knows by names which are not like these.
ELSEWHERE = {"utf-8-sig": "UTF-8", "utf8mb4": "UTF-8", "ansi": "windows-1252", "unicode-16": "UTF-16"}


@dataclass(frozen=True)
class Encoding:
    """A text encoding.

    Attributes:
        name: what Java calls it.
        codec: Python's codec of it; empty if there is none.
        characters: character of each byte, U+FFFE for none; empty if the codec decodes it.
    """

    name: str
    codec: str
    characters: str = ""

    @property
    def is_readable(self) -> bool:
        """Whether files in it can be decoded."""
        return bool(self.codec or self.characters)


UTF_8 = Encoding("UTF-8", "utf-8")


def find(name: str) -> Encoding | None:
    """Return the encoding of a name or alias, in any case; None if Java does not know it."""
    return _encodings_by_name().get(name.strip().lower())


def nearest_name(name: str) -> str:
    """Return Java's name of the encoding with the most similar name or alias; empty if none is similar."""
    encodings = _encodings_by_name()
    lower = name.strip().lower()
    if lower in ELSEWHERE:
        return ELSEWHERE[lower]
    bare = {
        "".join(filter(str.isalnum, other)): encoding.name
        for other, encoding in encodings.items()
        if encoding.is_readable
    }
    near = difflib.get_close_matches("".join(filter(str.isalnum, lower)), bare, 1, 0.6)
    if near:
        return bare[near[0]]
    return ""


@cache
def _encodings_by_name() -> dict[str, Encoding]:
    encodings: dict[str, Encoding] = {}
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        name, aliases, decoded = line.split("\t")
        characters = ""
        if decoded.startswith(CHARACTERS):
            cells = decoded.removeprefix(CHARACTERS)
            characters = "".join(chr(int(cells[offset : offset + 4], 16)) for offset in range(0, len(cells), 4))
        if characters or decoded == UNREADABLE:
            codec = ""
        else:
            codec = decoded
        encoding = Encoding(name, codec, characters)
        encodings |= {alias.lower(): encoding for alias in (name, *aliases.split())}
    return encodings
