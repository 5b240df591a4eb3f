"""Translation of a Spark SQL query to DuckDB's SQL with the same meaning.

sqlglot translates most of it. This module has what sqlglot lacks, and what would otherwise silently give other rows:
casts (DuckDB rounds where Spark truncates), days of the week, percentiles, time zones, units of ``date_trunc``. Types
are not known here, so what depends on them is left to DuckDB's overloaded macros (:data:`MACROS`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

_Rule = Callable[[exp.Expr], None]


class SparkSQL(Spark):
    """Spark 4's SQL. sqlglot's own dialect has the casts and divisions of Spark 3, which give NULL where they fail."""

    SAFE_DIVISION = False

    class Parser(SparkParser):
        STRICT_CAST = True


class Untranslatable(ValueError):
    """Raised for what has no counterpart that gives the same rows."""


# Casts, by the type of their operand. DuckDB resolves the overloads; each macro also lists the types that it would
# otherwise cast to another of the list. DECIMAL(38, 18) holds every number that a BIGINT does.
_BY_TYPE = (
    """CREATE MACRO spark_digits(x) AS CASE WHEN regexp_full_match(trim(x), '[+-]?[0-9]+') THEN trim(x)
                                            ELSE concat(x, ' (not a whole number)') END""",
    """CREATE MACRO spark_whole(x BIGINT) AS x, (x HUGEINT) AS x, (x DOUBLE) AS trunc(x),
       (x DECIMAL(38, 18)) AS trunc(x), (x BOOLEAN) AS x, (x DATE) AS x, (x VARCHAR) AS spark_digits(x),
       (x TIMESTAMPTZ) AS CAST(floor(epoch(x)) AS BIGINT)""",
    """CREATE MACRO spark_number(x TIMESTAMPTZ) AS epoch(x), (x TIMESTAMP) AS x, (x DATE) AS x, (x VARCHAR) AS x,
       (x) AS x""",
    """CREATE MACRO spark_instant(x DOUBLE) AS make_timestamptz(CAST(trunc(x * 1000000) AS BIGINT)),
       (x BIGINT) AS make_timestamptz(x * 1000000), (x VARCHAR) AS x, (x DATE) AS x, (x TIMESTAMP) AS x,
       (x TIMESTAMPTZ) AS x""",
    """CREATE MACRO spark_text(x TIMESTAMPTZ) AS CAST(timezone('UTC', x) AS VARCHAR), (x TIMESTAMP) AS x, (x DATE) AS x,
       (x VARCHAR) AS x, (x) AS x""",
)

# The same casts via text: aggregates and window functions have no type yet when DuckDB resolves overloads.
_BY_TEXT = (
    "CREATE MACRO spark_type(x) AS split_part(typeof(x), '(', 1)",
    "CREATE MACRO spark_bit(x) AS CASE CAST(x AS VARCHAR) WHEN 'true' THEN '1' WHEN 'false' THEN '0' END",
    "CREATE MACRO spark_time(x) AS TRY_CAST(CAST(x AS VARCHAR) AS TIMESTAMPTZ)",
    "CREATE MACRO spark_double(x) AS TRY_CAST(CAST(x AS VARCHAR) AS DOUBLE)",
    """CREATE MACRO spark_whole_text(x) AS CASE spark_type(x)
         WHEN 'BOOLEAN' THEN spark_bit(x)
         WHEN 'TIMESTAMP WITH TIME ZONE' THEN CAST(CAST(floor(epoch(spark_time(x))) AS BIGINT) AS VARCHAR)
         WHEN 'DOUBLE' THEN coalesce(CAST(TRY_CAST(trunc(spark_double(x)) AS HUGEINT) AS VARCHAR), CAST(x AS VARCHAR))
         WHEN 'FLOAT' THEN coalesce(CAST(TRY_CAST(trunc(spark_double(x)) AS HUGEINT) AS VARCHAR), CAST(x AS VARCHAR))
         WHEN 'DECIMAL' THEN regexp_replace(CAST(x AS VARCHAR), '[.].*', '')
         WHEN 'VARCHAR' THEN spark_digits(CAST(x AS VARCHAR))
         ELSE CAST(x AS VARCHAR) END""",
    """CREATE MACRO spark_number_text(x) AS CASE spark_type(x)
         WHEN 'BOOLEAN' THEN spark_bit(x)
         WHEN 'TIMESTAMP WITH TIME ZONE' THEN CAST(epoch(spark_time(x)) AS VARCHAR)
         ELSE CAST(x AS VARCHAR) END""",
    """CREATE MACRO spark_instant_text(x) AS CASE
         WHEN spark_type(x) IN ('DOUBLE', 'FLOAT', 'DECIMAL', 'TINYINT', 'SMALLINT', 'INTEGER', 'BIGINT', 'HUGEINT')
         THEN CAST(make_timestamptz(CAST(trunc(spark_double(x) * 1000000) AS BIGINT)) AS VARCHAR)
         ELSE CAST(x AS VARCHAR) END""",
    """CREATE MACRO spark_text_text(x) AS CASE spark_type(x)
         WHEN 'TIMESTAMP WITH TIME ZONE' THEN CAST(timezone('UTC', spark_time(x)) AS VARCHAR)
         ELSE CAST(x AS VARCHAR) END""",
)

MACROS = (
    *_BY_TYPE,
    *_BY_TEXT,
    """CREATE MACRO spark_unix(x) AS CAST(floor(epoch_us(CAST(x AS TIMESTAMPTZ)) / 1000000) AS BIGINT)""",
    """CREATE MACRO spark_unix_millis(x) AS CAST(floor(epoch_us(CAST(x AS TIMESTAMPTZ)) / 1000) AS BIGINT)""",
    """CREATE MACRO spark_divisor(x) AS CASE WHEN x = 0 THEN error('division by zero; try_divide gives NULL')
                                             ELSE x END""",
    "CREATE MACRO timestamp_millis(x) AS make_timestamptz(CAST(x AS BIGINT) * 1000)",
    "CREATE MACRO timestamp_micros(x) AS make_timestamptz(CAST(x AS BIGINT))",
    "CREATE MACRO pmod(a, b) AS ((a % b) + b) % b",
    "CREATE MACRO nanvl(a, b) AS CASE WHEN isnan(a) THEN b ELSE a END",
    "CREATE MACRO every(x) AS bool_and(x)",
)

_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"), "QUARTER": "QUARTER",
    **dict.fromkeys(("MONTH", "MON", "MM"), "MONTH"), "WEEK": "WEEK", **dict.fromkeys(("DAY", "DD"), "DAY"),
    **{unit: unit for unit in ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")},
}  # fmt: skip

_Type = exp.DataType.Type
_INSTANTS = {_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ}
_DEFAULT_FORMAT = "%Y-%mstrict-%dstrict %Hstrict:%Mstrict:%Sstrict"  # sqlglot's name for Spark's yyyy-MM-dd HH:mm:ss
_FORMAT_PART = re.compile(r"%-?[A-Za-z](?:strict)?|'[^']*'|[A-Za-z]+")
_FRACTIONS = {"SSS": "%g", "SSSSSS": "%f"}
_OTHER_HASH = "{} returns different numbers in DuckDB and in Spark"
_CAST_FUNCTIONS = {"tinyint": "TINYINT", "smallint": "SMALLINT", "bigint": "BIGINT", "timestamp_seconds": "TIMESTAMPTZ"}
_CASTS = {
    **dict.fromkeys(exp.DataType.INTEGER_TYPES, "spark_whole"),
    **dict.fromkeys((_Type.FLOAT, _Type.DOUBLE, _Type.DECIMAL), "spark_number"),
    **dict.fromkeys(exp.DataType.TEXT_TYPES, "spark_text"),
    **dict.fromkeys(_INSTANTS, "spark_instant"),
}


def name_columns(query: exp.Query) -> None:
    """Name unnamed columns by their text, as Spark does, before the translation changes that text."""
    first: exp.Expr = query
    while isinstance(first, (exp.SetOperation, exp.Subquery)):
        first = first.this
    for column in list(first.expressions) if isinstance(first, exp.Select) else []:
        if isinstance(column, exp.Explode) and not isinstance(column, (exp.Posexplode, exp.Inline)):
            column.replace(exp.alias_(column.copy(), "col"))
        elif not (column.is_star or isinstance(column, (exp.Alias, exp.Aliases, exp.Column, exp.Dot, exp.UDTF))):
            name = column.output_name if isinstance(column, exp.Cast) else ""  # that of the column which is cast
            text = name or column.sql("spark", normalize_functions="lower", comments=False)
            column.replace(exp.alias_(column.copy(), text, quoted=True))


def to_duckdb(query: exp.Query, *, by_text: bool = False) -> str:
    """Translate a query into DuckDB's SQL; DuckDB needs :data:`MACROS` to run it.

    Args:
        query: parsed with :class:`SparkSQL`.
        by_text: cast via text, which is slower but does not need types: for a query for which DuckDB reports that a
            macro "has multiple overloads that match".

    Raises:
        Untranslatable: if a part of it is known to have no counterpart.
        sqlglot.errors.UnsupportedError: if sqlglot knows of none.
    """
    query = query.copy()
    for hint in list(query.find_all(exp.Hint)):
        hint.pop()  # hints change the speed, not the rows
    for node in reversed(list(query.walk())):  # innermost first
        if rule := _RULES.get(type(node)):
            rule(node)
    for call in query.find_all(exp.Anonymous) if by_text else ():
        if call.this in _CASTS.values():
            call.set("this", f"{call.this}_text")
    return query.sql("duckdb", identify=True, unsupported_level=ErrorLevel.RAISE)


def _cast(node: exp.Expr) -> None:
    value, to = node.this, node.args["to"].this
    macro = _CASTS.get(to)
    if macro is None or isinstance(value, exp.Null):
        return
    if value.is_string and to not in exp.DataType.INTEGER_TYPES:
        return
    node.set("this", exp.Anonymous(this=macro, expressions=[value]))
    if to in _INSTANTS:
        node.set("to", exp.DataType.build("TIMESTAMPTZ"))


def _replace_node(node: exp.Expr, make: Callable[[exp.Expr], exp.Expr]) -> None:
    node.replace(make(node.copy()))


def _unit(node: exp.Expr) -> None:
    unit = node.args["unit"]
    duckdb_unit = _UNITS.get(unit.name.upper())
    if duckdb_unit is None:
        raise Untranslatable(f"Spark cannot truncate a time to {unit.name}")
    node.set("unit", exp.var(duckdb_unit))


def _trunc(node: exp.Expr) -> None:
    """Make ``trunc`` give a date, of whatever has one."""
    _unit(node)
    day = exp.TimestampTrunc(this=exp.cast(node.this.copy(), "DATE"), unit=node.args["unit"].copy())
    node.replace(exp.cast(day, "DATE"))


def _extract(node: exp.Expr) -> None:
    """Align parts of a time: Spark's Sunday is 1 and DuckDB's is 0, and Spark's seconds have a fraction."""
    part = node.name.upper()
    if part in {"DOW", "DAYOFWEEK"}:
        _plus_one(node)
    elif part in {"SECOND", "SECONDS", "SEC", "S"}:
        micros = exp.Extract(this=exp.var("MICROSECOND"), expression=node.expression.copy())
        seconds = exp.Div(this=micros, expression=exp.Literal.number(1_000_000))
        node.replace(exp.cast(seconds, "DECIMAL(8, 6)"))


def _plus_one(node: exp.Expr) -> None:
    _replace_node(node, lambda number: exp.paren(exp.Add(this=number, expression=exp.Literal.number(1))))


def _substring(node: exp.Expr) -> None:
    """Make position 0 the first character, as 1 is; in DuckDB it is the one before."""
    start = node.args.get("start")
    if isinstance(start, exp.Literal):
        if start.name == "0":
            node.set("start", exp.Literal.number(1))
    elif start is not None and not isinstance(start, exp.Neg):
        zero = exp.EQ(this=exp.paren(start.copy()), expression=exp.Literal.number(0))
        node.set("start", exp.If(this=zero, true=exp.Literal.number(1), false=start.copy()))


def _like(node: exp.Expr) -> None:
    """Make the backslash the escape character of patterns, which it is in Spark by default."""
    if not isinstance(node.parent, exp.Escape):
        _replace_node(node, lambda like: exp.Escape(this=like, expression=exp.Literal.string("\\")))


def _from_utc(node: exp.Expr) -> None:
    _replace_node(node, lambda local: exp.cast(local, "TIMESTAMPTZ"))


def _to_utc(node: exp.Expr) -> None:
    clock = exp.cast(node.this.copy(), _Type.TIMESTAMPNTZ)
    node.replace(exp.AtTimeZone(this=clock, zone=node.args["zone"].copy()))


def _unix_timestamp(node: exp.Expr) -> None:
    """Convert without a format by macro, as the argument may then be a time as well as a text."""
    if node.args["format"].name == _DEFAULT_FORMAT:
        node.replace(exp.Anonymous(this="spark_unix", expressions=[node.this.copy()]))
    else:
        _replace_node(node, lambda seconds: exp.cast(seconds, "BIGINT"))


def _percentile(node: exp.Expr) -> None:
    """Make ``percentile`` interpolate; sqlglot takes DuckDB's that picks one of two values."""
    node.replace(exp.Anonymous(this="quantile_cont", expressions=[node.this.copy(), node.args["quantile"].copy()]))


def _difference(node: exp.Expr) -> None:
    """Count whole units that have passed, as Spark does; DuckDB's ``date_diff`` counts the borders between them."""
    unit = node.args.get("unit")
    if unit is None:
        return  # datediff(a, b): days between dates
    ends = [end.this if isinstance(end, exp.TsOrDsToDate) else end for end in (node.expression, node.this)]
    instants = [exp.cast(end.copy(), "TIMESTAMPTZ") for end in ends]
    node.replace(exp.Anonymous(this="date_sub", expressions=[exp.Literal.string(unit.name), *instants]))


def _to_date(node: exp.Expr) -> None:
    node.set("safe", False)  # what is not a date is an error, as in Spark 4


def _time_format(node: exp.Expr) -> None:
    """Convert fractions of a second and quoted text, which sqlglot leaves, and refuse all else that it left."""
    format_literal = node.args["format"]
    if not format_literal.is_string:
        raise Untranslatable("a time format must be a string literal")

    def part(match: re.Match[str]) -> str:
        text = match[0]
        if text.startswith("%"):
            return text
        if text.startswith("'"):
            return text[1:-1].replace("%", "%%") or "'"
        if text not in _FRACTIONS:
            raise Untranslatable(f"{text} in the format of a time has no equivalent in DuckDB")
        return _FRACTIONS[text]

    node.set("format", exp.Literal.string(_FORMAT_PART.sub(part, format_literal.name)))


def _format_string(node: exp.Expr) -> None:
    node.replace(exp.Anonymous(this="printf", expressions=[node.this.copy(), *(e.copy() for e in node.expressions)]))


def _refuse_struct_extreme(node: exp.Expr) -> None:
    if isinstance(node.this, exp.Struct):
        order = "NULL is the smallest part of a struct in Spark and the largest in DuckDB"
        raise Untranslatable(f"{order}: use max_by, min_by")


def _refuse_outer_lateral(node: exp.Expr) -> None:
    if node.args.get("outer"):
        raise Untranslatable("LATERAL VIEW OUTER drops rows with empty arrays in DuckDB")


def _refusing_rule(reason: str) -> _Rule:
    def refuse(_: exp.Expr) -> None:
        raise Untranslatable(reason)

    return refuse


def _exists(node: exp.Expr) -> None:
    if node.args.get("expression") is not None:
        raise Untranslatable("DuckDB has no exists with a lambda: write size(filter(array, x -> …)) > 0")


def _refuse_positions(node: exp.Expr) -> None:
    function = node.args["expression"]
    if isinstance(function, exp.Lambda) and len(function.expressions) > 1:
        raise Untranslatable("the index of an element, as in (x, i) -> …, starts at 0 in Spark and at 1 in DuckDB")


def _divide(node: exp.Expr) -> None:
    """Make a division by zero an error, as in Spark; DuckDB returns infinity."""
    divisor = node.args["expression"]
    if not divisor.is_number or float(divisor.name or 0) == 0:
        node.set("expression", exp.Anonymous(this="spark_divisor", expressions=[divisor]))


def _as_date(node: exp.Expr) -> None:
    _replace_node(node, lambda day: exp.cast(day, "DATE"))


def _as_macro(name: str) -> _Rule:
    def call(node: exp.Expr) -> None:
        node.replace(exp.Anonymous(this=name, expressions=[node.this.copy()]))

    return call


def _function(node: exp.Expr) -> None:
    """Convert functions that sqlglot does not know and pass on unchanged."""
    name, arguments = node.name.lower(), [argument.copy() for argument in node.expressions]
    if name in _CAST_FUNCTIONS and len(arguments) == 1:
        cast = exp.Cast(this=arguments[0], to=exp.DataType.build(_CAST_FUNCTIONS[name]))
        node.replace(cast)
        _cast(cast)
    elif name in {"isnull", "isnotnull"} and len(arguments) == 1:
        null: exp.Expr = exp.Is(this=exp.paren(arguments[0]), expression=exp.Null())
        node.replace(exp.paren(null if name == "isnull" else exp.not_(null)))
    elif name == "weekday" and len(arguments) == 1:  # Monday is 0
        days = exp.Anonymous(this="isodow", expressions=[exp.cast(arguments[0], "DATE")])
        node.replace(exp.paren(exp.Sub(this=days, expression=exp.Literal.number(1))))
    elif name in {"hash", "xxhash64"}:
        raise Untranslatable(_OTHER_HASH.format(name))
    elif name == "date_part" and len(arguments) == 2 and arguments[0].is_string:
        extract = exp.Extract(this=exp.var(arguments[0].name.upper()), expression=arguments[1])
        node.replace(extract)
        _extract(extract)


_RULES: dict[type[exp.Expr], _Rule] = {
    exp.Cast: _cast, exp.TryCast: _cast, exp.TimestampTrunc: _unit, exp.DateTrunc: _trunc, exp.DayOfWeek: _plus_one,
    exp.Extract: _extract, exp.Div: _divide, exp.Substring: _substring, exp.Like: _like, exp.ILike: _like,
    exp.AtTimeZone: _from_utc, exp.FromTimeZone: _to_utc, exp.StrToUnix: _unix_timestamp,
    exp.UnixSeconds: _as_macro("spark_unix"), exp.UnixMillis: _as_macro("spark_unix_millis"), exp.Quantile: _percentile,
    exp.Kurtosis: _as_macro("kurtosis_pop"),
    exp.Skewness: _refusing_rule("skewness is of the population in Spark and of a sample in DuckDB"),
    exp.MonthsBetween: _refusing_rule("months_between considers the time of day only in Spark"),
    exp.DateDiff: _difference, exp.TimestampDiff: _difference, exp.TsOrDsToDate: _to_date, exp.TimeToStr: _time_format,
    exp.UnixToStr: _time_format, exp.Format: _format_string, exp.Exists: _exists, exp.Transform: _refuse_positions,
    exp.ArrayFilter: _refuse_positions, exp.Lateral: _refuse_outer_lateral, exp.Max: _refuse_struct_extreme,
    exp.Min: _refuse_struct_extreme, exp.DateFromUnixDate: _as_date, exp.TsOrDsAdd: _as_date, exp.AddMonths: _as_date,
    exp.Anonymous: _function,
}  # fmt: skip
