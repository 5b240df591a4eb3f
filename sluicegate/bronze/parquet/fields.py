"""Read Parquet fields with types that Spark refuses: how Spark reads them, and what their values are.

Spark reads any physical type as itself if the given schema says so, whatever its meaning. The meanings are read as:

======================  ======================================================================================
TIMESTAMP(NANOS)        TIMESTAMP or TIMESTAMP_NTZ; NULL and rescued if there are digits below a microsecond
FLOAT16                 FLOAT, which has all of its values
TIME, UUID, INTERVAL    STRING, in the forms of ISO 8601 and RFC 4122
DECIMAL, over 38        STRING, its digits
others                  as they are stored
======================  ======================================================================================
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import types as T

from sluicegate.bronze.parquet import texts
from sluicegate.bronze.parquet.footer_schema import REPEATED, SchemaNode
from sluicegate.bronze.parquet.stored import Converted, Elements, Entries, Nanoseconds, Stored, StoredGroup, WideDecimal
from sluicegate.spark_sql.types import MOST_DIGITS

# The largest precisions of decimals that are stored as integers.
OF_INTEGERS = {"INT32": 9, "INT64": 18}

_PLAIN = {"BOOLEAN": "boolean", "FLOAT": "float", "DOUBLE": "double", "INT32": "int", "INT64": "bigint",
          "INT96": "timestamp", "BYTE_ARRAY": "binary", "FIXED_LEN_BYTE_ARRAY": "binary"}  # fmt: skip
_INTEGERS = {(8, True): "tinyint", (16, True): "smallint", (32, True): "int", (64, True): "bigint",
             (8, False): "smallint", (16, False): "int", (32, False): "bigint",
             (64, False): "decimal(20,0)"}  # fmt: skip
_ANNOTATED = {("INT32", "DATE"): "date",
              **{("BYTE_ARRAY", logical): "string" for logical in ("STRING", "ENUM", "JSON")},
              **{("BYTE_ARRAY", logical): "binary" for logical in ("BSON", "GEOMETRY", "GEOGRAPHY")}}  # fmt: skip


_FOREIGN: dict[tuple[str, str, Any], Stored] = {
    ("INT32", "TIME", "MILLIS"): Converted(T.IntegerType(), T.StringType(), partial(texts.time, digits=3)),
    ("INT64", "TIME", "MICROS"): Converted(T.LongType(), T.StringType(), partial(texts.time, digits=6)),
    ("INT64", "TIME", "NANOS"): Converted(T.LongType(), T.StringType(), partial(texts.time, digits=9)),
    ("FIXED_LEN_BYTE_ARRAY", "FLOAT16", 2): Converted(T.BinaryType(), T.FloatType(), texts.float16),
    ("FIXED_LEN_BYTE_ARRAY", "UUID", 16): Converted(T.BinaryType(), T.StringType(), texts.uuid),
    ("FIXED_LEN_BYTE_ARRAY", "INTERVAL", 12): Converted(T.BinaryType(), T.StringType(), texts.interval),
}

# Logical type of a field that is NULL in all records.
VOID = "UNKNOWN"


class UnreadableField(Exception):
    """A field that neither Spark nor this module can read; its text says why."""


def stored_field(node: SchemaNode) -> Stored:
    """Return how a field of a file is stored, by the rules of Spark's ``ParquetSchemaConverter``.

    Raises:
        Unreadable: the field cannot be read.
    """
    stored = _stored_node(node)
    if node.repetition != REPEATED:
        return stored
    _demand_no_wide_decimal(node, stored)
    return _elements(stored)


def is_void(node: SchemaNode) -> bool:
    """Return whether a field has no type yet: it, and each part of it, is NULL in all records."""
    if node.repetition == REPEATED:
        return False
    if node.physical:
        return node.logical == VOID
    return not node.logical and bool(node.children) and all(map(is_void, node.children))


def _stored_node(node: SchemaNode) -> Stored:
    if node.physical:
        return _leaf(node)
    match node.logical:
        case "LIST":
            return _list(node)
        case "MAP":
            return _map(node)
        case "VARIANT":
            return _plain_type("variant")
        case "":
            return _group(node)
    raise UnreadableField(f"{node} is no type that Spark can read")


def _group(node: SchemaNode) -> Stored:
    children = [child for child in node.children if not is_void(child)]
    fields = {child.name: stored_field(child) for child in children}
    if len(fields) < len(children) or not fields:
        raise UnreadableField("a group with " + ("two fields of one name" if fields else "no fields"))
    read, made = (
        T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])
        for kinds in ({n: f.read for n, f in fields.items()}, {n: f.type for n, f in fields.items()})
    )
    return StoredGroup(read, made, fields)


def _list(node: SchemaNode) -> Stored:
    """Read an array; the second of three levels is left out, or is itself the element in files of old writers."""
    if len(node.children) != 1 or node.children[0].repetition != REPEATED:
        raise UnreadableField(f"{node} without one repeated field")
    [repeated] = node.children
    if not (repeated.physical or repeated.children):
        raise UnreadableField(f"{node} of groups with no fields")
    old = repeated.physical or len(repeated.children) > 1 or repeated.name in ("array", f"{node.name}_tuple")
    if old:
        element = _stored_node(repeated)
    else:
        element = stored_field(repeated.children[0])
    _demand_no_wide_decimal(node, element)
    return _elements(element)


def _elements(element: Stored) -> Stored:
    return Elements(T.ArrayType(element.read), T.ArrayType(element.type), element)


def _map(node: SchemaNode) -> Stored:
    if len(node.children) == 1:
        [pairs] = node.children
    else:
        [pairs] = [None]
    if pairs is None or pairs.repetition != REPEATED or len(pairs.children) != 2:
        raise UnreadableField(f"{node} without keys and values")
    key, item = map(stored_field, pairs.children)
    _demand_no_wide_decimal(node, key, item)
    return Entries(T.MapType(key.read, item.read), T.MapType(key.type, item.type), key, item)


def _plain_type(ddl: str) -> Stored:
    kind = T.DataType.fromDDL(ddl)
    return Stored(kind, kind)


def _leaf(node: SchemaNode) -> Stored:
    if node.logical == "DECIMAL":
        return _decimal(node)
    if ddl := _spark_type(node):
        return _plain_type(ddl)
    if stored := _foreign_field(node):
        return stored
    raise UnreadableField(f"{node} is no type that Spark can read")


def _spark_type(node: SchemaNode) -> str:
    """Return a field's type in Spark; empty if Spark has none."""
    says = node.details
    match node.physical, node.logical:
        case physical, "" | "UNKNOWN":  # the latter are all NULL: elements of arrays and maps
            return _PLAIN[physical]
        case "INT32" | "INT64" as physical, "INTEGER" if (says["bits"] == 64) == (physical == "INT64"):
            return _INTEGERS[says["bits"], says["signed"]]
        case "INT64", "TIMESTAMP" if says["unit"] in ("MILLIS", "MICROS"):
            if says["utc"]:
                return "timestamp"
            return "timestamp_ntz"
    return _ANNOTATED.get((node.physical, node.logical), "")


def _foreign_field(node: SchemaNode) -> Stored | None:
    """Return how a field is stored whose type Spark does not have."""
    kind = (node.physical, node.logical, node.details.get("unit", node.length))
    if kind == ("INT64", "TIMESTAMP", "NANOS"):
        return Nanoseconds(T.LongType(), T.TimestampType() if node.details["utc"] else T.TimestampNTZType())
    return _FOREIGN.get(kind)


def _decimal(node: SchemaNode) -> Stored:
    precision, scale = node.details["precision"], node.details["scale"]
    if not 0 <= scale <= precision > 0 or node.physical not in (*OF_INTEGERS, "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        raise UnreadableField(f"{node} is no number")
    if precision > OF_INTEGERS.get(node.physical, precision):
        raise UnreadableField(f"{node} has more digits than its values")
    if precision <= MOST_DIGITS:
        return _plain_type(f"decimal({precision},{scale})")
    return WideDecimal(T.BinaryType(), T.StringType(), lambda stored: texts.decimal(stored, scale))


def _demand_no_wide_decimal(node: SchemaNode, *parts: Stored) -> None:
    if any(map(_has_wide_decimal, parts)):
        raise UnreadableField(f"{node} of numbers with more than {MOST_DIGITS} digits")


def _has_wide_decimal(stored: Stored) -> bool:
    """Whether a value has a number of more digits than Spark's in it."""
    if isinstance(stored, StoredGroup):
        return any(map(_has_wide_decimal, stored.fields.values()))
    return isinstance(stored, WideDecimal)
