"""Comparable bytes of VARIANT values, equal where type and value are.

Spark 4.2 neither compares, groups nor hashes a VARIANT, and its text does not tell 1 from 1.0, nor a date from the text
of one. Its own bytes do, but they also hold the order in which names were first met, the width of each number and the
trailing zeros of decimals: these mean nothing and are left out here.
https://github.com/apache/parquet-format/blob/master/VariantEncoding.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pyspark.sql import Column
from pyspark.sql.types import VariantVal

_PRIMITIVE, _SHORT_TEXT, _OBJECT = 0, 1, 2

# Bytes of a primitive value by its type; the types with a length prefix; the types that have one value in several
# widths.
_SIZES = {0: 0, 1: 0, 2: 0, 3: 1, 4: 2, 5: 4, 6: 8, 7: 8, 8: 5, 9: 9, 10: 17, 11: 4, 12: 8, 13: 8, 14: 4,
          17: 8, 18: 8, 19: 8, 20: 16}  # fmt: skip
_SIZED = {15, 16}
_WHOLE, _DECIMAL, _TEXT = (3, 4, 5, 6), (8, 9, 10), 16


def canonical_bytes(variants: Column) -> Column:
    """Return comparable bytes of the variants in an array, as an array of binaries without NULL.

    Args:
        variants: a column of ``ARRAY<VARIANT>``.
    """
    from pyspark import cloudpickle
    from pyspark.sql import functions as F

    import sluicegate.frames.difference.variants as here

    # Executors need not have this package, nor Arrow.
    cloudpickle.register_pickle_by_value(here)  # type: ignore[no-untyped-call]
    try:
        return F.udf(lambda variants_of_row: encode_all(variants_of_row), "array<binary>", useArrow=False)(variants)
    finally:
        cloudpickle.unregister_pickle_by_value(here)  # type: ignore[no-untyped-call]


def encode_all(variants: Sequence[VariantVal | None] | None) -> list[bytes]:
    """Return the comparable bytes of the variants that are not NULL."""
    return [encode(bytes(variant.value), bytes(variant.metadata)) for variant in variants or () if variant is not None]


def encode(value: bytes, metadata: bytes) -> bytes:
    """Return the comparable bytes of one variant.

    Args:
        value: its value, as Spark stores it.
        metadata: the names in it, as Spark stores them.
    """
    return b"".join(_parts(value, 0, _names(metadata)))


def _parts(value: bytes, position: int, names: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the bytes of the value at a position: type, length and content."""
    basic, info = value[position] & 3, value[position] >> 2
    if basic == _PRIMITIVE:
        yield _encode(info, *_primitive(value, position + 1, info))
    elif basic == _SHORT_TEXT:
        yield _encode(_TEXT, value[position + 1 : position + 1 + info])
    elif basic == _OBJECT:
        ids, starts = _places(
            value, position + 1, large=info >> 4 & 1, width=(info & 3) + 1, id_width=(info >> 2 & 3) + 1
        )
        fields = sorted(zip((names[name_id] for name_id in ids), starts, strict=True))
        yield b"{%d:" % len(fields)
        for name, start in fields:
            yield _encode(_TEXT, name)
            yield from _parts(value, start, names)
    else:
        _, starts = _places(value, position + 1, large=info >> 2 & 1, width=(info & 3) + 1, id_width=0)
        yield b"[%d:" % len(starts)
        for start in starts:
            yield from _parts(value, start, names)


def _primitive(value: bytes, position: int, kind: int) -> tuple[bytes, ...]:
    if kind in _SIZED:
        return (value[position + 4 : position + 4 + _read_integer(value, position, 4)],)
    if kind not in _SIZES:
        raise ValueError(f"a VARIANT has a value of type {kind}, which is not known here")
    if kind in _WHOLE:
        return (b"%d" % int.from_bytes(value[position : position + _SIZES[kind]], "little", signed=True),)
    if kind in _DECIMAL:
        scale = value[position]
        digits = int.from_bytes(value[position + 1 : position + _SIZES[kind]], "little", signed=True)
        while scale and digits % 10 == 0:
            scale, digits = scale - 1, digits // 10
        return b"%d" % digits, b"%d" % scale
    return (value[position : position + _SIZES[kind]],)


def _encode(kind: int, *parts: bytes) -> bytes:
    kind = next((same[0] for same in (_WHOLE, _DECIMAL) if kind in same), kind)
    return b"%d(" % kind + b",".join(b"%d:%b" % (len(part), part) for part in parts) + b")"


def _places(value: bytes, position: int, *, large: int, width: int, id_width: int) -> tuple[list[int], list[int]]:
    """Return the name IDs of an object, and the positions of the values of an object or array."""
    size_width = 1
    if large:
        size_width = 4
    size, position = _read_integer(value, position, size_width), position + size_width
    ids = []
    if id_width:
        ids = [_read_integer(value, position + number * id_width, id_width) for number in range(size)]
    position += size * id_width
    first = position + (size + 1) * width
    return ids, [first + _read_integer(value, position + number * width, width) for number in range(size)]


def _names(metadata: bytes) -> list[bytes]:
    width = (metadata[0] >> 6 & 3) + 1
    size = _read_integer(metadata, 1, width)
    ends = [_read_integer(metadata, 1 + (number + 1) * width, width) for number in range(size + 1)]
    first = 1 + (size + 2) * width
    return [metadata[first + start : first + end] for start, end in pairwise(ends)]


def _read_integer(data: bytes, position: int, width: int) -> int:
    return int.from_bytes(data[position : position + width], "little")
