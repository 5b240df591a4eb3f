"""Parse the schema of a Parquet footer into a tree with the annotations of groups, which pyarrow omits.

The footer is a Thrift structure in the compact protocol:
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift and
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from sluicegate.storage import filesystems

MAGIC = b"PAR1"

REQUIRED, OPTIONAL, REPEATED = range(3)

PHYSICAL = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")

# Logical types by their numbers in the union LogicalType.
LOGICAL = {1: "STRING", 2: "MAP", 3: "LIST", 4: "ENUM", 5: "DECIMAL", 6: "DATE", 7: "TIME", 8: "TIMESTAMP",
           10: "INTEGER", 11: "UNKNOWN", 12: "JSON", 13: "BSON", 14: "UUID", 15: "FLOAT16", 16: "VARIANT",
           17: "GEOMETRY", 18: "GEOGRAPHY"}  # fmt: skip

UNITS = {1: "MILLIS", 2: "MICROS", 3: "NANOS"}

# What the older ConvertedType says, by its numbers, as a logical type and its details.
CONVERTED: Mapping[int, tuple[str, dict[str, Any]]] = {
    0: ("STRING", {}), 1: ("MAP", {}), 2: ("MAP", {}), 3: ("LIST", {}), 4: ("ENUM", {}), 5: ("DECIMAL", {}),
    6: ("DATE", {}), 7: ("TIME", {"unit": "MILLIS", "utc": True}), 8: ("TIME", {"unit": "MICROS", "utc": True}),
    9: ("TIMESTAMP", {"unit": "MILLIS", "utc": True}), 10: ("TIMESTAMP", {"unit": "MICROS", "utc": True}),
    **{11 + n: ("INTEGER", {"bits": 8 << n, "signed": False}) for n in range(4)},
    **{15 + n: ("INTEGER", {"bits": 8 << n, "signed": True}) for n in range(4)},
    19: ("JSON", {}), 20: ("BSON", {}), 21: ("INTERVAL", {}),
}  # fmt: skip

# What bytes that are no footer lead to: a StopIteration in a generator is a RuntimeError.
_BROKEN = (LookupError, StopIteration, RuntimeError, TypeError, AttributeError, ValueError)

# A logical type that this version of the format does not know.
UNHEARD_OF = "an unknown type"


@dataclass(frozen=True)
class SchemaNode:
    """Field of a Parquet schema, or its root.

    Attributes:
        name: its name.
        repetition: ``REQUIRED``, ``OPTIONAL`` or ``REPEATED``.
        physical: physical type of its values, one of ``PHYSICAL``; empty for a group.
        length: bytes of a value of FIXED_LEN_BYTE_ARRAY.
        logical: logical type, one of ``LOGICAL``; INTERVAL; empty if none is given.
        details: ``unit`` and ``utc`` of TIME and TIMESTAMP, ``bits`` and ``signed`` of INTEGER, ``precision`` and
            ``scale`` of DECIMAL.
        children: fields of a group.
    """

    name: str
    repetition: int = OPTIONAL
    physical: str = ""
    length: int = 0
    logical: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    children: tuple[SchemaNode, ...] = ()

    def __str__(self) -> str:
        """Format the type as Spark's messages write it, such as ``INT64 (TIMESTAMP(NANOS))``."""
        if not self.logical:
            return self.physical or "group"
        says = [str(self.details[name]) for name in ("unit", "precision", "scale") if name in self.details]
        return f"{self.physical or 'group'} ({self.logical}{'(' + ','.join(says) + ')' if says else ''})"


def read(path: str) -> SchemaNode:
    """Root of a file's schema.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not Parquet, or its footer is encrypted.
    """
    with filesystems.reader(path) as file:
        return parse_footer(footer(file))


def footer(file: IO[bytes]) -> bytes:
    """Read the bytes of a file's footer.

    Raises:
        ValueError: the footer is missing or encrypted.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - 8))
    end = file.read(8)
    if len(end) < 8 or end[4:] != MAGIC:
        raise ValueError("it does not end with the magic bytes of Parquet")
    length = int.from_bytes(end[:4], "little")
    file.seek(max(0, size - 8 - length))
    return file.read(length)


def parse_footer(data: bytes) -> SchemaNode:
    """Root of the schema in the bytes of a footer.

    Raises:
        ValueError: the bytes are not a footer.
    """
    try:
        elements = iter(_struct(io.BytesIO(data), last=2)[2])
        return _node(next(elements), elements)
    except _BROKEN as error:
        raise ValueError(f"its footer is damaged ({type(error).__name__})") from None


def _node(element: Mapping[int, Any], rest: Any) -> SchemaNode:
    """Field of an element of the schema; its children are the elements that follow."""
    logical, details = _meaning(element)
    children = tuple(_node(next(rest), rest) for _ in range(element.get(5, 0)))
    return SchemaNode(
        element[4].decode(), element.get(3, REQUIRED), PHYSICAL[element[1]] if 1 in element else "", element.get(2, 0),
        logical, details, children,
    )  # fmt: skip


def _meaning(element: Mapping[int, Any]) -> tuple[str, dict[str, Any]]:
    """Return the logical type of an element and its details, by the older annotation if there is no other."""
    if 10 not in element:
        logical, details = CONVERTED.get(element.get(6, -1), ("", {}))
        if logical == "DECIMAL":
            details = {"precision": element.get(8, 0), "scale": element.get(7, 0)}
        return logical, details
    [(number, says)] = element[10].items() or [(0, {})]
    logical = LOGICAL.get(number, UNHEARD_OF)
    match logical:
        case "DECIMAL":
            return logical, {"precision": says[2], "scale": says.get(1, 0)}
        case "TIME" | "TIMESTAMP":
            [unit] = says[2]
            return logical, {"unit": UNITS.get(unit, UNHEARD_OF), "utc": says[1]}
        case "INTEGER":
            return logical, {"bits": says[1], "signed": says[2]}
    return logical, {}


# --- the compact protocol --------------------------------------------------------------------------------------------


def _struct(data: IO[bytes], last: int = 0) -> dict[int, Any]:
    """Parse a structure into values by field number; ``last`` is the last field that is read."""
    values: dict[int, Any] = {}
    number = 0
    while head := _byte(data):
        delta, kind = head >> 4, head & 15
        if delta:
            number = number + delta
        else:
            number = _zigzag(data)
        values[number] = kind == 1 if kind in (1, 2) else _value(data, kind)  # a field's type says true or false
        if number == last:
            break
    return values


def _value(data: IO[bytes], kind: int) -> Any:
    match kind:
        case 1 | 2:  # in a list each has its byte
            return _byte(data) == 1
        case 3:
            return int.from_bytes(_bytes(data, 1), "little", signed=True)
        case 4 | 5 | 6:
            return _zigzag(data)
        case 7:
            return _bytes(data, 8)
        case 8:
            return _bytes(data, _varint(data))
        case 9 | 10:
            return _list(data)
        case 11:
            return _map(data)
        case 12:
            return _struct(data)
    raise LookupError(kind)


def _list(data: IO[bytes]) -> list[Any]:
    head = _byte(data)
    size = head >> 4
    if size == 15:  # it stands behind
        size = _varint(data)
    return [_value(data, head & 15) for _ in range(size)]


def _map(data: IO[bytes]) -> list[tuple[Any, Any]]:
    size, kinds = _varint(data), 0
    if size:
        kinds = _byte(data)
    return [(_value(data, kinds >> 4), _value(data, kinds & 15)) for _ in range(size)]


def _zigzag(data: IO[bytes]) -> int:
    number = _varint(data)
    return (number >> 1) ^ -(number & 1)


def _varint(data: IO[bytes]) -> int:
    """Read a varint: groups of seven bits, lowest first."""
    number = 0
    for shift in range(0, 70, 7):
        byte = _byte(data)
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number
    raise LookupError("an unterminated number")


def _byte(data: IO[bytes]) -> int:
    return _bytes(data, 1)[0]


def _bytes(data: IO[bytes], size: int) -> bytes:
    value = data.read(size)
    if len(value) < size:
        raise LookupError("the footer is truncated")
    return value
