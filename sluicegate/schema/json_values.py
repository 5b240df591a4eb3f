"""Fit of a JSON text to a nested type: leaf by leaf, with the digits of its numbers.

Spark's from_json makes doubles of numbers before it makes texts of them, and rejects a whole value for one of its
leaves. So each number is tagged as a text first, the text is parsed with texts as leaves, and these are fitted one by
one. Where the records of a ledger batch disagree about a part, it is parsed once more, by itself.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sluicegate.schema import text_values, typed_values
from sluicegate.schema.text_values import Fitted
from sluicegate.schema.typed_values import any_of
from sluicegate.sql.types import as_ddl

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql.types import DataType

# Marker of a number that is written as a text: another one in each process, so that no text that lands can have it.
NUMBER = f"_sluicegate_number_{secrets.token_hex(8)}:"

# What lies before a number, and the number. Texts are passed over as a whole, and so are names without quotes and
# comments, as the reader's options allow them. Possessive, as a text may be long.
_TEXTS = r""""[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+\'"""
_NAMES = r"[A-Za-z_$\x{80}-\x{10FFFF}][A-Za-z0-9_$\x{80}-\x{10FFFF}]*+"
_COMMENTS = r"/\*(?:[^*]++|\*(?!/))*+\*/|//[^\r\n]*+"
_OTHERS = r"""[^"'/0-9A-Za-z_$\x{80}-\x{10FFFF}-]++|-(?![0-9])"""
_NUMBERS = rf"(?s)\G((?:{_OTHERS}|{_TEXTS}|{_NAMES}|{_COMMENTS})*+)(-?[0-9][0-9.eE+-]*+)"
_TAGGED = rf'"{NUMBER}([^"]*)"|{NUMBER}'

# Corrupt-record column of from_json, for texts of another shape.
MISFIT = "_sluicegate_misfit"


def shape(target: DataType, shown: DataType) -> DataType:
    """Type that texts are parsed to: texts as leaves, and as parts that are not of the target's shape in all records.

    Args:
        target: type of the column.
        shown: inferred type of the values of a ledger batch.
    """
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    if isinstance(target, StructType) and isinstance(shown, StructType):
        own = {field.name: field.dataType for field in target}
        parts = [(field.name, shape(own.get(field.name, StringType()), field.dataType)) for field in shown]
        return StructType([StructField(name, kind) for name, kind in parts])
    if isinstance(target, ArrayType) and isinstance(shown, ArrayType):
        return ArrayType(shape(target.elementType, shown.elementType))
    if isinstance(target, MapType) and isinstance(shown, StructType):
        return MapType(StringType(), StringType())
    return StringType()


def fit(raw: Expression, target: DataType, shape: DataType) -> Expression:
    """Fit a JSON text to a nested type: STRUCT<value, lost BOOLEAN>, for ``of_fit``.

    Args:
        raw: the text.
        target: type of the column.
        shape: as ``shape`` gives it.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import AtomicType

    def both(text: Expression) -> Expression:
        part = _of_text(text, target, shape)
        lost = F.lit(False) if part.lost is None else part.lost
        return F.struct(part.value.alias("value"), lost.alias("lost"))

    # By way of an array, so that the text is tagged and parsed once and not for each leaf.
    by_leaf = F.transform(F.array(tagged(raw)), both)[0]
    if isinstance(target, AtomicType) or not _is_printed_exactly(target):
        return by_leaf

    def printed(value: Expression) -> Expression:
        whole = F.struct(value.alias("value"), F.lit(False).alias("lost"))
        return F.when(F.to_json(value) == raw, whole).otherwise(by_leaf)

    return F.transform(F.array(F.from_json(raw, as_ddl(target))), printed)[0]


def _is_printed_exactly(target: DataType) -> bool:
    """Whether a value of a nested type whose JSON is its landed text is sure to be the landed value.

    Such a value needs no look at its leaves. Leaves of other types have several values for a text, by the time zone or
    their precision.
    """
    from pyspark.sql.types import (
        ArrayType,
        BooleanType,
        DecimalType,
        DoubleType,
        IntegralType,
        MapType,
        StringType,
        StructType,
    )

    match target:
        case StructType():
            return all(_is_printed_exactly(field.dataType) for field in target)
        case ArrayType():
            return _is_printed_exactly(target.elementType)
        case MapType():
            return target.keyType == StringType() and _is_printed_exactly(target.valueType)
    is_number = isinstance(target, (IntegralType, DecimalType, DoubleType))
    return is_number or isinstance(target, BooleanType) or target == StringType()


def of_fit(fit: Expression) -> Fitted:
    """Value and loss of a text that ``fit`` fitted."""
    return Fitted(fit["value"], fit["lost"])


def tagged(text: Expression) -> Expression:
    """A JSON text whose numbers are texts with our marker."""
    from pyspark.sql import functions as F

    return F.when(text.rlike("[0-9]"), F.regexp_replace(text, _NUMBERS, rf'$1"{NUMBER}$2"')).otherwise(text)


def without_tags(text: Expression) -> Expression:
    """A text as it was before, which may be a part of it."""
    from pyspark.sql import functions as F

    return F.when(text.contains(NUMBER), F.regexp_replace(text, _TAGGED, "$1")).otherwise(text)


def _of_text(text: Expression, target: DataType, shape: DataType) -> Fitted:
    """Fits a tagged text to a type, parsed to a shape."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    if isinstance(shape, StringType):
        return _leaf(text, target)

    def both(parsed: Expression) -> Expression:
        part = typed_values.fitted(parsed["v"], shape, target, _leaf)
        lost = parsed[MISFIT].isNotNull() | (text.isNotNull() & parsed["v"].isNull())
        lost = lost if part.lost is None else lost | part.lost
        return F.struct(part.value.alias("value"), F.coalesce(lost, F.lit(False)).alias("lost"))

    return of_fit(F.transform(F.array(_parsed(text, shape)), both)[0])


def _leaf(text: Expression, target: DataType) -> Fitted:
    """Fits a tagged text that is a leaf of its shape to a type, which may be nested all the same."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

    match target:
        case StructType():
            texts = StructType([StructField(field.name, StringType()) for field in target])
            own = _of_text(text, target, texts)
            others = F.map_filter(
                F.from_json(text, "map<string,string>"),
                lambda key, value: ~key.isin(target.names) & value.isNotNull(),
            )
            return Fitted(own.value, any_of([own.lost, F.coalesce(F.size(others) > 0, F.lit(False))]))
        case ArrayType():
            return _of_text(text, target, ArrayType(StringType()))
        case MapType():
            return _of_text(text, target, MapType(StringType(), StringType()))
    if isinstance(target, StringType):
        return text_values.unpadded(without_tags(text), target, {})

    def typed(untagged: Expression) -> Expression:
        return text_values.unpadded(untagged, target, {}).value

    # By way of an array, too: the fit of a number asks for its text a dozen times.
    value = F.transform(F.array(without_tags(text)), typed)[0]
    return Fitted(value, text.isNotNull() & value.isNull())


def _parsed(text: Expression, shape: DataType) -> Expression:
    """A text in an object of ours, since from_json does not take every type at the top level."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([StructField("v", shape), StructField(MISFIT, StringType())])
    wrapped = F.concat(F.lit('{"v":'), text, F.lit("}"))
    return F.from_json(wrapped, schema, {"columnNameOfCorruptRecord": MISFIT})
