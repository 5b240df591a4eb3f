"""Functions whose value is not a record's alone: another one in each run, for each user, or by the place of a row.

A record of silver may be evaluated again, when a lookup changes, a file is replaced, or records are replayed, and rows
of equal values must then come out. So a query of silver has none of them, and each is answered by what to write: what
bronze knows of the record's arrival, or a hash of the record's own key. They are Spark's functions of rows whose
expressions are not ``deterministic``, and those that its optimizer replaces once for each query
(``ComputeCurrentTime``, ``ReplaceCurrentLike``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.tokens import QuerySyntax, Span, Tokens

_ARRIVAL = "write receipt_time, the time at which bronze received the record"
_DAY = "write CAST(receipt_time AS DATE), the day on which bronze received the record"
_ID = (
    "derive it from the record's key, for example sha2(CAST(id AS STRING), 256), or of its place, "
    "sha2(concat_ws('/', source_file, _chunk, _pos), 256)"
)
_CHANCE = "derive it from the record's key, for example pmod(xxhash64(id), 1000) / 1000, which is the same in each run"
_FILE = "write source_file, the file that the record came in"
_WHO = "remove it: the history of the Delta table shows who ran what"
_PLACE = "remove it: it depends on how Spark partitions the data, not on the record"
_ORDER = "use sort_array, or keep the original order"

UNSTABLE = {
    "current_timestamp": _ARRIVAL, "now": _ARRIVAL, "localtimestamp": _ARRIVAL, "current_time": _ARRIVAL,
    "current_date": _DAY, "curdate": _DAY,
    "uuid": _ID, "monotonically_increasing_id": _ID,
    "rand": _CHANCE, "random": _CHANCE, "randn": _CHANCE, "uniform": _CHANCE, "randstr": _CHANCE,
    "shuffle": _ORDER,
    "input_file_name": _FILE, "input_file_block_start": _PLACE, "input_file_block_length": _PLACE,
    "spark_partition_id": _PLACE,
    "current_user": _WHO, "user": _WHO, "session_user": _WHO,
    "current_catalog": _WHO, "current_database": _WHO, "current_schema": _WHO, "current_path": _WHO,
    "current_timezone": _WHO,
    "reflect": _PLACE, "java_method": _PLACE, "try_reflect": _PLACE,
}  # fmt: skip
"""Names of the functions, each with what to write instead."""

# Those that Spark takes for functions without parentheses, too, where no column has the name: `user` seldom is one.
_BARE = {"current_timestamp", "current_date", "current_time", "current_user", "localtimestamp"}

# Functions that are a time of the run only where they have no argument.
_WITHOUT_ARGUMENTS = {"unix_timestamp": "write unix_timestamp(receipt_time), of when bronze received the record"}

# Texts that Spark takes for a time of the run where it makes a date or a timestamp of a constant
# (SpecialDatetimeValues).
_MOMENT = re.compile(r"\s*(now|today|tomorrow|yesterday)(\s+\S+)?\s*", re.IGNORECASE)

# Functions of one text that cast it.
_CASTING = {"to_date", "try_to_date", "to_timestamp", "try_to_timestamp", "to_timestamp_ntz", "to_timestamp_ltz"}

_MOMENTS = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPLTZ,
            exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.TIMESTAMPTZ)  # fmt: skip


def objections(tokens: Tokens, tree: exp.Query) -> Iterator[QuerySyntax]:
    """Yield the objections to functions of a query whose value differs in each run.

    Args:
        tokens: the query.
        tree: the parsed query.
    """
    for index in range(len(tokens)):
        name = tokens.word(index).lower()
        if instead := _replacement(tokens, index, name):
            message = f"{name} returns another value each time that a record is evaluated: {instead}"
            yield QuerySyntax(message, tokens.line(index))
        if moment := _moment_in_call(tokens, index, name):
            yield QuerySyntax(_run_time_message(moment), tokens.line(index))
    for cast in tree.find_all(exp.Cast):
        text = cast.this
        constant = isinstance(text, exp.Literal) and text.is_string and _MOMENT.fullmatch(text.this)
        if constant and cast.to.this in _MOMENTS:
            yield QuerySyntax(_run_time_message(text.this), _line(tokens, text.this))


def _run_time_message(moment: str) -> str:
    return f"'{moment}' is the time of the run, so it changes each time that a record is evaluated: {_DAY}"


def _moment_in_call(tokens: Tokens, index: int, name: str) -> str:
    """Return the text for the time of the run that a call converts to a date or timestamp, empty for other calls."""
    if name not in _CASTING or not tokens.is_type(index + 2, TokenType.STRING):
        return ""
    text = tokens.raw(index + 2)[1:-1]
    alone = tokens.is_type(index + 1, TokenType.L_PAREN) and tokens.closing_index(index + 1) == index + 3
    if alone and _MOMENT.fullmatch(text):
        return text
    return ""


def use_receipt_time(text: str) -> str:
    """Replace the time of the run in a query by the time at which bronze received the record."""
    tokens, spans = Tokens(text), []
    for index in range(len(tokens)):
        name = tokens.word(index).lower()
        value = {_ARRIVAL: "receipt_time", _DAY: "CAST(receipt_time AS DATE)"}.get(_replacement(tokens, index, name))
        if value is not None:
            called = tokens.is_type(index + 1, TokenType.L_PAREN)
            spans.append(Span(index, tokens.closing_index(index + 1) if called else index, value))
    return tokens.compose(spans)


def _replacement(tokens: Tokens, index: int, name: str) -> str:
    """Return the advice for a function that a token calls, empty if it calls none of these."""
    called = tokens.is_type(index + 1, TokenType.L_PAREN)
    if called and name in _WITHOUT_ARGUMENTS and tokens.closing_index(index + 1) == index + 2:
        return _WITHOUT_ARGUMENTS[name]
    if called:
        return UNSTABLE.get(name, "")
    is_name = tokens.word(index - 1) == "AS" or tokens.is_type(index + 1, TokenType.DOT)
    if name in _BARE and not is_name:
        return UNSTABLE[name]
    return ""


def _line(tokens: Tokens, text: str) -> int:
    texts = (i for i in range(len(tokens)) if tokens.is_type(i, TokenType.STRING) and text in tokens.raw(i))
    return next((tokens.line(i) for i in texts), 1)
