"""Fit JSON text to a nested type, leaf by leaf, with all digits of its numbers.

Spark's from_json makes doubles of numbers before it makes texts of them, and rejects a whole value for one of its
leaves. So each number is tagged as a text first, the text is parsed with texts as leaves, and these are fitted one by
one. Where the records of a ledger batch disagree about a part, it is parsed once more, by itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sluicegate.schema import text_values, typed_values
from sluicegate.schema.text_values import Fitted
from sluicegate.schema.typed_values import any_of
from sluicegate.spark_sql.types import as_ddl

# Marker of a number that is written as a text: another one in each process, so that no text that lands can have it.
NUMBER = f"_sluicegate_number_{secrets.token_hex(8)}:"

# What lies before a number, and the number. Texts are passed over as a whole, and so are names without quotes and
# comments, as the reader's options allow them. Possessive, as a text may be long.
_TEXTS = r""""[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+\'"""
# NaN and the like, which the reader takes for numbers, too, if no colon makes them names.
_NOT_FINITE = r"(?:NaN|Infinity|INF)(?![A-Za-z0-9_$\x{80}-\x{10FFFF}]|\s*+:)"
_NAMES = rf"(?!{_NOT_FINITE})[A-Za-z_$\x{{80}}-\x{{10FFFF}}][A-Za-z0-9_$\x{{80}}-\x{{10FFFF}}]*+"
_COMMENTS = r"/\*(?:[^*]++|\*(?!/))*+\*/|//[^\r\n]*+"
_OTHERS = rf"""[^"'/0-9A-Za-z_$\x{{80}}-\x{{10FFFF}}+-]++|[+](?!{_NOT_FINITE})|-(?![0-9]|{_NOT_FINITE})"""
_NUMBERS = rf"(?s)\G((?:{_OTHERS}|{_TEXTS}|{_NAMES}|{_COMMENTS})*+)([+-]?{_NOT_FINITE}|-?[0-9][0-9.eE+-]*+)"
_ANY_NUMBER = "[0-9]|NaN|Infinity|INF"
_TAGGED = rf'"{NUMBER}([^"]*)"|{NUMBER}'

# Corrupt-record column of from_json, for texts of another shape.
MISFIT = "_sluicegate_misfit"

# Name behind a text in an object of ours, which no text can have.
_END = f"_sluicegate_end_{secrets.token_hex(8)}"


@dataclass(frozen=True)
class LandedJson:
    """A JSON text that is to have a nested type.

    Attributes:
        raw: the JSON text.
        target: type of the column.
        shape: result of ``shape``.
        options: reader options by lower-case name.
    """

    raw: Expression
    target: T.DataType
    shape: T.DataType
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def whole_type(self) -> T.DataType | None:
        """Type whose value is certainly the landed one if its JSON is the text; None if there is none."""
        if isinstance(self.target, T.AtomicType):
            return None
        return _written_type(self.target)


def shape(target: T.DataType, shown: T.DataType) -> T.DataType:
    """Type that text is parsed to: text for leaves, and for parts with another shape than the target in all records.

    Args:
        target: type of the column.
        shown: inferred type of the values of a ledger batch.
    """
    if isinstance(target, T.StructType) and isinstance(shown, T.StructType):
        target_types = {field.name: field.dataType for field in target}
        parts = [(field.name, shape(target_types.get(field.name, T.StringType()), field.dataType)) for field in shown]
        return T.StructType([T.StructField(name, kind) for name, kind in parts])
    if isinstance(target, T.ArrayType) and isinstance(shown, T.ArrayType):
        return T.ArrayType(shape(target.elementType, shown.elementType))
    if isinstance(target, T.MapType) and isinstance(shown, T.StructType):
        return T.MapType(T.StringType(), T.StringType())
    return T.StringType()


def fit(text: LandedJson) -> Expression:
    """Fit a JSON text to its type leaf by leaf: STRUCT<value, lost BOOLEAN>, for ``fitted_result``."""
    # By way of an array, so that the text is tagged once and not for each leaf.
    leaves = _Leaves(text.options)
    fits = F.transform(F.array(tag_numbers(text.raw)), lambda element: leaves.fit(element, text.target, text.shape))
    return fits[0]


def add_fits(frame: DataFrame, texts: Mapping[str, LandedJson]) -> DataFrame:
    """Add columns with the fits of JSON texts, as ``fit`` gives them, and columns that these are made from.

    Few texts are taken apart by leaf: most are parsed as a whole to a value whose JSON is the text. Each step is a
    projection of its own, as Spark computes no expression twice that is a column of the one before.

    Args:
        frame: records with the texts.
        texts: texts by the names of the columns.
    """
    whole = {name: written for name, text in texts.items() if (written := text.whole_type) is not None}
    parsed = [F.from_json(texts[name].raw, as_ddl(kind)).alias(f"{name}_parsed") for name, kind in whole.items()]
    is_whole = [_is_written_as(F.col(f"{name}_parsed"), texts[name].raw).alias(f"{name}_is_whole") for name in whole]
    fits = []
    for name, text in texts.items():
        fitted = fit(text)
        if name in whole:
            dated = typed_values.TypedTexts(text.options)
            value = typed_values.fit_value(F.col(f"{name}_parsed"), whole[name], text.target, dated)
            fitted = F.when(F.col(f"{name}_is_whole"), _as_struct(value)).otherwise(fitted)
        fits.append(fitted.alias(name))
    return frame.select("*", *parsed).select("*", *is_whole).select("*", *fits)


def _is_written_as(parsed: Expression, raw: Expression) -> Expression:
    """Return whether the JSON of a parsed value equals the landed text, except for blanks and NULL fields.

    Leaves of such a value need no check: each is spelled as it landed. Parsing changes no blanks within a text.
    """

    def remove_spaces(text: Expression) -> Expression:
        return F.replace(text, F.lit(" "), F.lit(""))

    def remove_blanks(text: Expression) -> Expression:
        return F.translate(text, " \t\r\n", "")

    printed, with_nulls = F.to_json(parsed), F.to_json(parsed, {"ignoreNullFields": "false"})
    # The first two, which spare most texts the others, are the faster ones.
    comparisons = [
        printed == raw, remove_spaces(printed) == remove_spaces(raw), remove_blanks(printed) == remove_blanks(raw),
        remove_blanks(with_nulls) == remove_blanks(raw),
    ]  # fmt: skip
    return reduce(or_, comparisons)


def _written_type(target: T.DataType) -> T.DataType | None:
    """Return the type in which a value is parsed as a whole, if all its leaves have one.

    Times depend on the time zone, and stay text. So do FLOAT and others because of their precision.
    """
    match target:
        case T.StructType():
            kinds = {field.name: _written_type(field.dataType) for field in target}
            fields = [T.StructField(name, kind) for name, kind in kinds.items() if kind is not None]
            if len(fields) != len(target):
                return None
            return T.StructType(fields)
        case T.ArrayType():
            kind = _written_type(target.elementType)
            if kind is None:
                return None
            return T.ArrayType(kind)
        case T.MapType():
            kind = _written_type(target.valueType)
            if kind is None or target.keyType != T.StringType():
                return None
            return T.MapType(T.StringType(), kind)
        case T.IntegralType() | T.DecimalType() | T.DoubleType() | T.BooleanType():
            return target
        case T.DateType() | T.TimestampType() | T.TimestampNTZType():
            return T.StringType()
    if target != T.StringType():
        return None
    return target


def _as_struct(fitted: Fitted) -> Expression:
    if fitted.lost is None:
        lost = F.lit(False)
    else:
        lost = F.coalesce(fitted.lost, F.lit(False))
    return F.struct(fitted.value.alias("value"), lost.alias("lost"))


def fitted_result(fit: Expression) -> Fitted:
    """Return the value and the loss of a result of ``fit``."""
    return Fitted(fit["value"], fit["lost"])


def tag_numbers(text: Expression) -> Expression:
    """Mark the numbers of a JSON text as text."""
    return F.when(text.rlike(_ANY_NUMBER), F.regexp_replace(text, _NUMBERS, rf'$1"{NUMBER}$2"')).otherwise(text)


def remove_tags(text: Expression) -> Expression:
    """Remove the marks of ``tag_numbers`` from a text or a part of it."""
    untagged = F.when(text.startswith(NUMBER), F.substr(text, F.lit(len(NUMBER) + 1)))
    return untagged.when(text.contains(NUMBER), F.regexp_replace(text, _TAGGED, "$1")).otherwise(text)


@dataclass(frozen=True)
class _Leaves:
    """Conversion of tagged texts, leaf by leaf.

    Attributes:
        options: reader options by lower-case name.
    """

    options: Mapping[str, str]

    def fit_part(self, text: Expression, target: T.DataType, shape: T.DataType) -> Fitted:
        """Fit a text to a type after parsing it to a shape."""
        if isinstance(shape, T.StringType):
            return self.leaf(text, target)
        return fitted_result(self.fit(text, target, shape))

    def fit(self, text: Expression, target: T.DataType, shape: T.DataType) -> Expression:
        """Fit a text as ``fit_part`` does, in one expression: STRUCT<value, lost BOOLEAN>."""
        if isinstance(shape, T.StringType):
            return _as_struct(self.leaf(text, target))

        def fit_parsed(parsed: Expression) -> Expression:
            part = typed_values.fit_value(parsed["v"], shape, target, self.leaf)
            misfit = parsed[MISFIT].isNotNull() | (text.isNotNull() & parsed["v"].isNull())
            return _as_struct(Fitted(part.value, any_of([misfit, part.lost])))

        # By way of an array, so that the text is parsed once.
        return F.transform(F.array(_parse_wrapped(text, shape)), fit_parsed)[0]

    def leaf(self, text: Expression, target: T.DataType) -> Fitted:
        """Fit a leaf of the shape to a type, which may still be nested."""
        match target:
            case T.StructType():
                return self._struct(text, target)
            case T.ArrayType():
                return self.fit_part(text, target, T.ArrayType(T.StringType()))
            case T.MapType():
                return self.fit_part(text, target, T.MapType(T.StringType(), T.StringType()))
            case T.StringType():
                return text_values.fit_unpadded(remove_tags(text), target, {})

        def leaf_value(untagged: Expression) -> Expression:
            return text_values.fit_unpadded(untagged, target, self.options).value

        # By way of an array, too: the fit of a number asks for its text a dozen times.
        value = F.transform(F.array(remove_tags(text)), leaf_value)[0]
        return Fitted(value, text.isNotNull() & value.isNull())

    def _struct(self, text: Expression, target: T.StructType) -> Fitted:
        """Fit a text to a struct; fields that the struct lacks are lost."""
        texts = T.StructType([T.StructField(field.name, T.StringType()) for field in target])
        struct = self.fit_part(text, target, texts)
        members = F.from_json(text, "map<string,string>")
        other_members = F.map_filter(members, lambda key, value: ~key.isin(target.names) & value.isNotNull())
        return Fitted(struct.value, any_of([struct.lost, F.coalesce(F.size(other_members) > 0, F.lit(False))]))


def _parse_wrapped(text: Expression, shape: T.DataType) -> Expression:
    """Parse a text inside an object, since from_json does not accept every type at the top level.

    A text that ends the object or continues it is not a value: Spark does not report what follows a value.
    """
    schema = T.StructType([T.StructField("v", shape), T.StructField(MISFIT, T.StringType())])
    wrapped = F.concat(F.lit('{"v":'), text, F.lit(f'\n,"{_END}":0}}'))
    is_one = F.json_object_keys(wrapped).eqNullSafe(F.array(F.lit("v"), F.lit(_END)))
    return F.from_json(F.when(is_one, wrapped), schema, {"columnNameOfCorruptRecord": MISFIT})
