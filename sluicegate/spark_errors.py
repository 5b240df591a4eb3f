"""Spark's errors as sentences: what happened, to which table or file, and what to do."""

from __future__ import annotations

import re

from sluicegate.errors import QueryError, SluicegateError, SourceError, Where

# How Spark says that a file cannot be read.
UNREADABLE = (
    "FAILED_READ_FILE",
    "CANNOT_READ_FILE",
    "PATH_NOT_FOUND",
    "FILE_NOT_EXIST",
    "UNABLE_TO_INFER_SCHEMA",
    "InvalidInputException",
)

# How Spark says, in the middle of a batch, that a value does not fit an expression.
MISFITS = ("CAST_INVALID_INPUT", "CAST_OVERFLOW", "CANNOT_PARSE_TIMESTAMP", "DIVIDE_BY_ZERO", "ARITHMETIC_OVERFLOW",
           "INVALID_ARRAY_INDEX", "NUMERIC_VALUE_OUT_OF_RANGE")  # fmt: skip

FILE_NAMED = re.compile(r"(?:file:/|[a-z0-9]+://)[^\s'\"]+?(?=[.,;:]?(?:[\s'\"]|$))")
CAUSED_BY = re.compile(r"^Caused by: (?:[\w.$]+\.)?([\w$]+(?:: .*)?)$", re.MULTILINE)


def readable(error: BaseException, layer: str, table: str) -> BaseException:
    """An error of ours as it is; Spark's about files or the user's query as a sentence; anything else as it is."""
    from pyspark.errors import AnalysisException, ParseException

    if isinstance(error, SluicegateError):
        return error
    cause = message(error)
    if layer == "bronze" and file_trouble(error):
        return SourceError(
            f"landed files of {table} cannot be read",
            where=Where(table=table, file=next(iter(FILE_NAMED.findall(str(error))), None)),
            cause=cause.splitlines()[0],
            hint="land the whole file under this name again, then run again: nothing of its chunk was written",
        )
    if any(sign in cause for sign in MISFITS):
        return QueryError(
            f"a value stops the query of {table}",
            where=Where(table=table),
            cause=next(line for line in cause.splitlines() if any(sign in line for sign in MISFITS)),
            hint="write CAST, or try_divide and its like, where the query converts: then the row is quarantined",
        )
    if isinstance(error, (AnalysisException, ParseException)):
        what = "the rows" if layer == "bronze" else "the query"
        return QueryError(f"Spark refuses {what} of {table}", where=Where(table=table), cause=cause)
    return error


def message(error: BaseException) -> str:
    """What Spark says of an error, without its stack and its plan."""
    return str(error).split("\n\nJVM stacktrace")[0].split(";\n")[0].split("\n==")[0].strip()


def file_trouble(error: BaseException) -> bool:
    """Whether Spark, or our own look at a header, could not read a file."""
    return isinstance(error, SourceError) or any(sign in str(error) for sign in UNREADABLE)


def root_cause(error: BaseException) -> str:
    """The innermost cause of an error in one line, such as ``EOFException: Unexpected end of input stream``."""
    if isinstance(error, SluicegateError):
        return error.cause or error.message
    causes = CAUSED_BY.findall(str(error))
    return causes[-1] if causes else message(error).splitlines()[0]
