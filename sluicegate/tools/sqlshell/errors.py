"""Errors of sqlglot and DuckDB in terms of the query as it was written, with a caret at the position."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from typing import Any

import duckdb
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError

from sluicegate.errors import QueryError, Where
from sluicegate.tools.sqlshell.dialect import SparkSQL

_REFUSED = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
_NO_COLUMN = re.compile(r'[Cc]olumn (?:named )?"([^"]+)"(?: not found|$)')
_OUR_MACRO = re.compile(r"Macro spark_\w+\(\) does not support the supplied arguments\.")
_PYTHON_CLASS = re.compile(r"<class '[\w.]*?(\w+)'>")


def first_line(error: BaseException) -> str:
    """Return the first line of an engine's message, without the backtrace and advice that follow."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def error_at(node: exp.Expr, sql: str, message: str, hint: str = "") -> QueryError:
    """Make the error at an identifier of the query."""
    place = (node.meta["start"], node.meta["end"] + 1) if "end" in node.meta else None
    return _error(message, sql, place, hint)


def sqlglot_error(error: SqlglotError, sql: str) -> QueryError:
    """Make the error for a text that cannot be parsed."""
    if not isinstance(error, ParseError) or not error.errors:
        return QueryError("the query cannot be parsed: look for an unclosed quote or comment")
    facts = error.errors[0]
    token = facts["highlight"]
    description = _PYTHON_CLASS.sub(r"\1", facts["description"]).partition(" but got <Token")[0].rstrip(".")
    place, near = None, ""
    if token:
        end = sum(map(len, sql.splitlines(keepends=True)[: facts["line"] - 1])) + facts["col"]
        place, near = (end - len(token), end), f" at {token}"
    return _error(f"the query cannot be parsed{near}: {description}", sql, place, "")


def duckdb_error(error: duckdb.Error, ran: str, sql: str, columns: Iterable[str]) -> QueryError:
    """Make the error for a query that DuckDB refuses, or that fails as it runs.

    Args:
        error: raised with ``errors_as_json``.
        ran: the query that DuckDB ran.
        sql: the query as it was written.
        columns: names of the columns of the tables that it reads.
    """
    facts = _facts(error)
    words = re.split(r"\n\s*Candidate (?:functions|macros):|\n\nLINE ", str(facts["exception_message"]))[0].strip()
    words = words.replace("Values list ", "Table ")  # DuckDB's name for a registered table
    words = _OUR_MACRO.sub("A value of this type cannot be cast to that type.", words)
    message, _, more = words.partition("\n")
    more = more.strip()
    if missing := _NO_COLUMN.search(message):
        near = difflib.get_close_matches(missing[1], list(columns), 1, 0.6)
        more = f"did you mean {near[0]}?" if near else ""
    verb = "is refused" if isinstance(error, _REFUSED) else "failed"
    if isinstance(error, duckdb.OutOfMemoryException):
        more = "select fewer rows or columns"
    elif ("not found" in message or "No such file" in message) and "parquet" in message.lower():
        more = "a file of that version is missing, probably after a VACUUM: query a newer version"
    return _error(f"the query {verb}: {message}", sql, _place(facts, ran, sql), more)


def _facts(error: duckdb.Error) -> dict[str, Any]:
    text = str(error)
    try:
        facts = json.loads(text[text.index("{") :])
    except ValueError:
        facts = None
    if isinstance(facts, dict) and "exception_message" in facts:
        return facts
    return {"exception_message": text.partition("Error: ")[2] or text}


def _place(facts: dict[str, Any], ran: str, sql: str) -> tuple[int, int] | None:
    """Return the place in the query as written of DuckDB's error position; None where that is not certain."""
    position = str(facts.get("position", ""))
    if not position.isdecimal():
        return None
    offset = len(ran.encode()[: int(position)].decode(errors="ignore"))
    duckdb_tokens = [token for token in DuckDB().tokenize(ran) if re.match(r"\w", token.text)]
    word = next((token.text.lower() for token in duckdb_tokens if token.start == offset), None)
    word_starts = [token.start for token in duckdb_tokens if token.text.lower() == word]
    spark_tokens = [token for token in SparkSQL().tokenize(sql) if token.text.lower() == word]
    if word is None or len(spark_tokens) != len(word_starts):
        return None
    token = spark_tokens[word_starts.index(offset)]
    return token.start, token.end + 1


def _error(message: str, sql: str, place: tuple[int, int] | None, hint: str) -> QueryError:
    if place is None:
        return QueryError(message, hint=hint)
    start, end = place
    begin = sql.rfind("\n", 0, start) + 1
    line = sql[begin:].partition("\n")[0]
    number = sql.count("\n", 0, start) + 1
    indent = "".join("\t" if letter == "\t" else " " for letter in line[: start - begin])
    carets = "^" * max(1, min(end - begin, len(line)) - (start - begin))
    shown = f"line {number}, column {start - begin + 1}\n{line}\n{indent}{carets}"
    return QueryError(message, where=Where(line=number), cause=shown.strip("\n"), hint=hint)
