"""Encoding of a sampled file, told from its bytes."""

from __future__ import annotations

import codecs

# Byte order marks, with Java's name of the encoding, the longest first: one begins as another does.
BOMS = {
    codecs.BOM_UTF32_LE: ("UTF-32", "utf-32"), codecs.BOM_UTF32_BE: ("UTF-32", "utf-32"),
    codecs.BOM_UTF16_LE: ("UTF-16", "utf-16"), codecs.BOM_UTF16_BE: ("UTF-16", "utf-16"),
}  # fmt: skip

# Most bytes of a character that a sample may be cut off in.
LONGEST = 4

# ISO-8859-1 has control characters, which nobody writes, where this one has € and quotes.
WESTERN = ("windows-1252", "cp1252")


def decode_head(head: bytes, whole: bool) -> tuple[str, str | None] | None:
    """Text of the first bytes of a file, and Java's name of its encoding if that is not UTF-8; None if it is no text.

    Args:
        head: the bytes.
        whole: whether they are all of the file, so that no character can be cut off.
    """
    named = next((encoding for bom, encoding in BOMS.items() if head.startswith(bom)), None)
    if named is None and b"\0" in head:
        named = _detect_utf16(head)
        if named is None:
            return None
    if named is not None:
        text = _decode_complete(head, named[1], whole)
        if text is None:
            return None
        return (text.removeprefix("\ufeff"), named[0])
    if (text := _decode_complete(head, "utf-8-sig", whole)) is not None:
        return text, None
    text = _decode_complete(head, WESTERN[1], whole)
    if text is None:
        return None
    return (text, WESTERN[0])


def _detect_utf16(head: bytes) -> tuple[str, str] | None:
    """UTF-16 by its zeros: of ASCII characters, of which tables and JSON have many, they are on one side only."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd > len(head) // 8 and not even:
        return "UTF-16LE", "utf-16-le"
    if even > len(head) // 8 and not odd:
        return "UTF-16BE", "utf-16-be"
    return None


def _decode_complete(head: bytes, codec: str, whole: bool) -> str | None:
    for dropped in range(1 if whole else LONGEST):
        try:
            return head[: len(head) - dropped].decode(codec)
        except UnicodeDecodeError:
            continue
    return None
