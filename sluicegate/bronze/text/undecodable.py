"""Undecodable bytes: their sentinels in decoded text, and how they are reported.

This runs on executors: it knows nothing of Spark.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# In decoded text, byte b that is no text is the lone surrogate U+DC00 + b: no decoder gives one by itself.
FIRST = 0xDC00
UNDECODED = re.compile("[\udc00-\udcff]")

# First byte of a file in UTF-16 that has a byte order mark.
_UTF_16_BEGINS = (0xFE, 0xFF)


class Undecodable(NamedTuple):
    """First undecodable byte of a text.

    Attributes:
        byte: its value.
        line: the line that it is in, from 1.
        begins_file: whether it is the first byte of the file.
    """

    byte: int
    line: int
    begins_file: bool

    def reason(self, encoding: str) -> str:
        """Return the fault of the byte and what to do, without values of the file, which may be personal data."""
        fault = f"the byte 0x{self.byte:02X} in line {self.line}, which is invalid in {encoding}"
        if self.begins_file and self.byte in _UTF_16_BEGINS:
            return f"{fault}; the file starts like UTF-16: set the option encoding"
        return f"{fault}; if the file has another encoding, such as windows-1252, set the option encoding"


def first_undecodable(text: str, line: int) -> Undecodable | None:
    """Return the first undecodable byte of decoded text; None if there is none.

    Args:
        text: the text, with lone surrogates for such bytes.
        line: the line that it begins with, from 1. The text of line 1 is the beginning of the file.
    """
    surrogate = UNDECODED.search(text)
    if surrogate is None:
        return None
    lines_before = text.count("\n", 0, surrogate.start())
    begins_file = line == 1 and surrogate.start() == 0
    return Undecodable(ord(surrogate[0]) - FIRST, line + lines_before, begins_file)
