"""Conversions by a function, as ``to_date(text, 'dd/MM/yyyy')``: what Spark does with a value that they cannot convert.

Under ANSI rules some of them raise, which would stop the table, and others give NULL, which the data did not have. Each
here is known with an expression that raises nothing and is true of such a value. What has a twin with ``try_`` is
replaced by that; another function that raises is called for values only that it converts.
https://spark.apache.org/docs/latest/sql-ref-ansi-compliance.html#useful-functions-for-ansi-mode
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.tokens import Span, Tokens

_Text = Callable[[int, int], str]
_Failed = Callable[[list[str]], str]

# Column of a text that from_json and its like could not read, or of which a value does not fit.
_MISFIT = "_sluicegate_misfit"

# Beginning of a schema that is one type, and no list of columns.
_NESTED = re.compile(r"(STRUCT|ARRAY|MAP)\s*<", re.IGNORECASE)

_DAYS = "'SU','SUN','SUNDAY','MO','MON','MONDAY','TU','TUE','TUESDAY','WE','WED','WEDNESDAY','TH','THU','THURSDAY',\
'FR','FRI','FRIDAY','SA','SAT','SATURDAY'"


def _is_null(function: str) -> _Failed:
    """Return the test for a function that gives NULL only for a value that fails."""
    return lambda arguments: f"{function}({', '.join(arguments)}) IS NULL"


def _unix(arguments: list[str]) -> str:
    text, pattern = (*arguments, "'yyyy-MM-dd HH:mm:ss'")[:2]
    return f"try_to_timestamp({text}, {pattern}) IS NULL"


def _no_local_timestamp(arguments: list[str]) -> str:
    if len(arguments) == 1:
        return f"TRY_CAST({arguments[0]} AS TIMESTAMP_NTZ) IS NULL"
    return f"try_to_timestamp({', '.join(arguments)}) IS NULL"


def _make_date(arguments: list[str]) -> str:
    return f"try_make_timestamp_ntz({', '.join(arguments)}, 0, 0, 0) IS NULL"


def _index_out_of_range(arguments: list[str]) -> str:
    """Write the test for an index outside an array; a missing key of a map is no failure."""
    of, index = arguments
    # By way of a text: Spark casts no day, which may be the key of a map, to a number.
    size = f"abs(TRY_CAST(CAST(({index}) AS STRING) AS BIGINT)) > size({of})"
    return f"typeof({of}) LIKE 'array<%' AND {size}"


def _no_url(arguments: list[str]) -> str:
    """Write the test for a text that is not a URL: each URL has a scheme, a path or a fragment."""
    parts = (f"try_parse_url({arguments[0]}, '{part}')" for part in ("PROTOCOL", "PATH", "REF"))
    return f"COALESCE({', '.join(parts)}) IS NULL"


def _misfit_variant(arguments: list[str]) -> str:
    value, path, *_ = arguments
    present = f"try_variant_get({value}, {path}, 'variant')"
    return (
        f"try_variant_get({', '.join(arguments)}) IS NULL AND {present} IS NOT NULL AND NOT is_variant_null({present})"
    )


def _no_json(function: str) -> _Failed:
    """Return the test for a text that is not JSON, for which the function gives NULL."""
    return lambda arguments: f"{function}({', '.join(arguments)}) IS NULL AND try_parse_json({arguments[0]}) IS NULL"


def _no_day(arguments: list[str]) -> str:
    return f"upper({arguments[1]}) NOT IN ({_DAYS})"


def _unread_text(function: str, arguments: list[str]) -> str:
    """Write the test for a text from which from_json or its like cannot read all that the schema asks for.

    The text is read once more, with Spark's column for corrupt records.
    """
    text, schema, options = (*arguments, "map()")[:3]
    written = schema.strip()
    no_text = "false"
    if function == "from_json":
        no_text = f"try_parse_json({text}) IS NULL"
    inner = options.strip()
    if written[:1] not in "'\"" or not inner.lower().startswith("map(") or not inner.endswith(")"):
        return no_text
    fields = written[1:-1].strip()
    if fields.startswith(("{", "[")) or fields.upper() == "VARIANT":
        return no_text
    nested = _NESTED.match(fields)
    corrupt_record = f"'columnNameOfCorruptRecord', '{_MISFIT}'"
    named = f"map({', '.join(filter(None, [inner[4:-1].strip(), corrupt_record]))})"
    quote = written[0]
    if function != "from_json":
        if nested:
            fields = fields[nested.end() : -1]
        whole = f"{quote}{fields}, {_MISFIT} STRING{quote}"
        return f"{function}({text}, {whole}, {named}).{_MISFIT} IS NOT NULL"
    if not nested:
        fields = f"STRUCT<{fields}>"
    whole = f"{quote}v {fields}, {_MISFIT} STRING{quote}"
    return f"from_json(concat('{{\"v\":', {text}, '}}'), {whole}, {named}).{_MISFIT} IS NOT NULL"


# Functions with a twin, try_…, that gives NULL for a value that does not convert; how such a value is known.
_OF_TWINS = (
    "TO_DATE", "TO_TIMESTAMP", "TO_NUMBER", "TO_BINARY", "TO_TIME", "MAKE_TIMESTAMP", "MAKE_TIMESTAMP_NTZ",
    "MAKE_TIMESTAMP_LTZ", "MAKE_INTERVAL", "PARSE_JSON", "URL_DECODE", "AES_DECRYPT", "VALIDATE_UTF8", "MOD",
)  # fmt: skip
_TWINS: dict[str, _Failed] = {name: _is_null(f"try_{name.lower()}") for name in _OF_TWINS}
_TWINS |= {"PARSE_URL": _no_url, "VARIANT_GET": _misfit_variant, "ELEMENT_AT": _index_out_of_range}
# Functions that raise and have no twin.
_GUARDED: dict[str, _Failed] = {
    "TO_TIMESTAMP_NTZ": _no_local_timestamp,
    "TO_TIMESTAMP_LTZ": _is_null("try_to_timestamp"),
    "UNIX_TIMESTAMP": _unix,
    "TO_UNIX_TIMESTAMP": _unix,
    "MAKE_DATE": _make_date,
    "NEXT_DAY": _no_day,
}
# Functions that give NULL, or a struct of NULLs.
_SILENT: dict[str, _Failed] = {
    "FROM_JSON": partial(_unread_text, "from_json"),
    "FROM_CSV": partial(_unread_text, "from_csv"),
    "FROM_XML": partial(_unread_text, "from_xml"),
    "UNHEX": _is_null("unhex"),
    "GET_JSON_OBJECT": _no_json("get_json_object"),
    "JSON_ARRAY_LENGTH": _no_json("json_array_length"),
    "JSON_OBJECT_KEYS": _no_json("json_object_keys"),
}
_FAILED = _TWINS | _GUARDED | _SILENT
# Arguments that may be NULL without making the result NULL, or that are no values: counted from 0.
_FIRST_ALONE = {"FROM_JSON", "FROM_CSV", "FROM_XML"}


@dataclass(frozen=True)
class Conversion:
    """A call of one of the functions: indices of its name and of its closing parenthesis, and its arguments."""

    index: int
    close: int
    arguments: tuple[tuple[int, int], ...]
    function: str

    def failure_sql(self, text: _Text) -> str:
        """Return a boolean expression that is true for a value that is not NULL and does not convert, and never raises.

        Args:
            text: function that returns the text of tokens, with replacements.
        """
        arguments = [text(start, stop) for start, stop in self.arguments]
        nullable = arguments
        if self.function in _FIRST_ALONE:
            nullable = arguments[:1]
        present = " AND ".join(f"({argument}) IS NOT NULL" for argument in nullable)
        return f"({present} AND {_FAILED[self.function](arguments)})"

    def spans(self, text: _Text) -> list[Span]:
        """Return the replacements that make the call return NULL for a value that does not convert.

        Args:
            text: function as in ``failure_sql``.
        """
        if self.function in _TWINS:
            return [Span(self.index, self.index, f"try_{self.function.lower()}")]
        if self.function in _GUARDED:
            head = f"CASE WHEN NOT {self.failure_sql(text)} THEN {self.function.lower()}"
            return [Span(self.index, self.index, head), Span(self.close, self.close, ") END")]
        return []


def find(tokens: Tokens) -> list[Conversion]:
    """Return all conversions of a text in order, nested ones included."""
    conversions = []
    for index in range(len(tokens)):
        function = tokens.word(index)
        if function not in _FAILED or not tokens.is_type(index + 1, TokenType.L_PAREN):
            continue
        close = tokens.closing_index(index + 1)
        if arguments := tokens.split_list(index + 2, close):
            conversions.append(Conversion(index, close, tuple(arguments), function))
    return conversions


def add_conversion_spans(tokens: Tokens, flagged: Sequence[object], spans: Sequence[Span]) -> list[Span]:
    """Return the replacements in a query, with those of its flagged conversions.

    Args:
        tokens: the query.
        flagged: flagged parts of the query, conversions among others.
        spans: the other replacements.
    """
    conversions = [flag for flag in flagged if isinstance(flag, Conversion)]
    all_spans = [*spans]
    for conversion in sorted(conversions, key=lambda flag: -flag.index):  # one may stand in the arguments of another

        def text(start: int, stop: int, inner: Sequence[Span] = tuple(all_spans)) -> str:
            return tokens.compose(inner, start, stop, compact=True)

        all_spans += conversion.spans(text)
    return all_spans
