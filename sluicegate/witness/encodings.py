"""Encodings of landed files as Python decodes them; that of UTF-16 and UTF-32 by how a file begins."""

from __future__ import annotations

import codecs

# Bytes of a file by which its byte order is known.
HEAD = 4096

_BEGINNINGS = {
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}


def codec_of_json(head: bytes) -> str:
    """Encoding of JSON that no option names one of: by its first four bytes, of which two are ASCII (RFC 4627)."""
    if b"\0" not in head[:4]:
        return "utf-8"
    for name, beginnings in _BEGINNINGS.items():
        if head.startswith(beginnings):
            return name
    wide = head[:3] == b"\0\0\0" or head[1:4] == b"\0\0\0"
    return add_byte_order("utf-32" if wide else "utf-16", head)


def add_byte_order(name: str, head: bytes) -> str:
    """Return the codec of UTF-16 or UTF-32 with the byte order of a file: by its mark, else by where its zeros are.

    Python takes text without a mark for that of this machine.

    Args:
        name: ``utf-16`` or ``utf-32``.
        head: how the file begins.

    Raises:
        LookupError: neither tells.
    """
    if head.startswith(_BEGINNINGS[name]):
        return name
    width = 2
    if name == "utf-32":
        width = 4
    first, last = head[::width].count(0), head[width - 1 :: width].count(0)
    if first == last:
        raise LookupError("its byte order cannot be determined")
    if first > last:
        return f"{name}-be"
    return f"{name}-le"
