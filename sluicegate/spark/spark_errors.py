"""Translate Spark's errors into ours: what happened, to which table or file, and what to do.

Spark's messages quote values of rows. If these may be personal data (``private``), only what cannot come from a row is
passed on: the name of the error condition, and the fragment of the user's query.
"""

from __future__ import annotations

import re

from sluicegate.errors import QueryError, SluicegateError, SourceError, Where
from sluicegate.spark import connect
from sluicegate.storage import store_errors
from sluicegate.storage.store_errors import has_sign

# Error conditions of unreadable files.
UNREADABLE = (
    "FAILED_READ_FILE", "CANNOT_READ_FILE", "PATH_NOT_FOUND", "FILE_NOT_EXIST", "UNABLE_TO_INFER_SCHEMA",
    "InvalidInputException",
)  # fmt: skip

# Error conditions of a value that does not fit an expression, raised while a batch runs.
MISFITS = ("CAST_INVALID_INPUT", "CAST_OVERFLOW", "CANNOT_PARSE_TIMESTAMP", "DIVIDE_BY_ZERO", "ARITHMETIC_OVERFLOW",
           "INVALID_ARRAY_INDEX", "NUMERIC_VALUE_OUT_OF_RANGE")  # fmt: skip

# SQL states of such values, by the standard: 21 and 22 are about data, P0 is what raise_error and assert_true raise.
# Delta has some of them for versions that are not there.
OF_DATA = re.compile(r"^(?!.*\[DELTA_).*SQLSTATE: (?:21|22|P0)\w{3}")

# Java exceptions about bytes, files and the network: their messages never quote values.
OF_BYTES = {"EOFException", "FileNotFoundException", "NoSuchFileException", "ZipException", "IOException",
            "AccessControlException", "AccessDeniedException", "SocketTimeoutException", "UnknownHostException",
            "FileFormatException", "InvalidAvroMagicException"}  # fmt: skip

NOT_SHOWN = "its text is not shown, since it may quote personal data"

_IN_SILVER = (
    "where Spark converts a value implicitly, write a CAST or a function such as to_date: a value that it cannot "
    "convert then quarantines its record; before anything else that fails, as a division by zero, test the value in a "
    "CASE, select it, and quarantine such rows by a rule, as in `expect_or_quarantine: divisor <> 0`"
)
_IN_GOLD = (
    "gold has no quarantine: use try_cast, try_divide and the like, which return NULL, or convert in silver, where a "
    "failed CAST quarantines the row; the table is unchanged"
)

FILE_NAMED = re.compile(r"(?:file:/|[a-z0-9]+://)[^\s'\"]+?(?=[.,;:]?(?:[\s'\"]|$))")
CAUSED_BY = re.compile(r"^Caused by: (?:[\w.$]+\.)?([\w$]+(?:: .*)?)$", re.MULTILINE)


def translate_error(error: BaseException, layer: str, table: str, *, private: bool = False) -> BaseException:
    """Translate Spark's errors about files, stores or queries; return others, ours and interrupts as they are.

    Args:
        error: the error.
        layer: layer of the table.
        table: the table being written.
        private: whether to drop all text that may hold a value of a row; then every error becomes one of ours.
    """
    from pyspark.errors import AnalysisException, ParseException

    if isinstance(error, SluicegateError) or not isinstance(error, Exception):
        return error  # an interrupt is not a failure of the table
    if (of_store := store_errors.translate_error(error, private=private)) is not None:
        return of_store
    if (of_server := connect.lost_server_error(error)) is not None:
        return of_server
    if layer == "bronze" and is_file_error(error):
        return _unreadable_files_error(error, table, private)
    if is_value_error(error):
        return _value_error(error, layer, table, private)
    if isinstance(error, (AnalysisException, ParseException)):
        subject = "the query"
        if layer == "bronze":
            subject = "the rows"
        return QueryError(f"Spark rejects {subject} of {table}", where=Where(table=table), cause=message(error))
    if private:
        return SluicegateError(
            f"cannot fill {table}: {type(error).__name__}",
            where=Where(table=table),
            cause=message_without_values(error),
            hint="nothing of this batch was written to the table; a new run continues after the last commit",
        )
    return error


def _unreadable_files_error(error: Exception, table: str, private: bool) -> SourceError:
    if private:
        cause = root_cause(error, private=True)
    else:
        cause, *_ = message(error).splitlines()
    return SourceError(
        f"landed files of {table} cannot be read",
        where=Where(table=table, file=next(iter(FILE_NAMED.findall(str(error))), None)),
        cause=cause,
        hint="land a complete file under the same name, then run again: nothing of its chunk was written",
    )


def _value_error(error: Exception, layer: str, table: str, private: bool) -> QueryError:
    cause, hint = _misfit(error), _IN_SILVER
    if private:
        cause = message_without_values(error)
    if layer == "gold":
        hint = _IN_GOLD
    return QueryError(f"a value makes the query of {table} fail", where=Where(table=table), cause=cause, hint=hint)


def is_value_error(error: BaseException) -> bool:
    """Return whether an expression failed because of a value, not because of machines, files or the query."""
    return bool(_misfit(error))


def _misfit(error: BaseException) -> str:
    """Return the line that names the error condition of a value; empty if there is none."""
    from pyspark.errors import AnalysisException

    lines = message(error).splitlines()
    signs = [line for line in lines if has_sign(line, MISFITS)]
    if not isinstance(error, AnalysisException):
        signs += [line for line in lines if OF_DATA.search(line)]
    return next(iter(signs), "")


def message_without_values(error: BaseException) -> str:
    """Return an error without values of rows: the names of its conditions, and fragments of the query."""
    from pyspark.errors import PySparkException
    from pyspark.errors.exceptions.base import QueryContextType

    parts: list[str] = []
    part_of_chain: BaseException | None = error
    while part_of_chain is not None:
        if isinstance(part_of_chain, PySparkException):
            places = [c.fragment() for c in part_of_chain.getQueryContext() if c.contextType() == QueryContextType.SQL]
            parts += map("[{}]".format, filter(None, [part_of_chain.getCondition()]))
            parts += map("in {}".format, filter(None, places))
        part_of_chain = getattr(part_of_chain, "_cause", None)  # Spark's exceptions: the JVM's cause
    if not parts:
        parts = [f"[{sign}]" for sign in MISFITS if sign in str(error)] or [type(error).__name__]
    return f"{' '.join(dict.fromkeys(parts))}; {NOT_SHOWN}"


def message(error: BaseException) -> str:
    """Return the message of a Spark error without stack trace and plan."""
    return str(error).split("\n\nJVM stacktrace")[0].split(";\n")[0].split("\n==")[0].strip()


def is_file_error(error: BaseException) -> bool:
    """Return whether Spark, or our reader of headers, failed to read a file."""
    return isinstance(error, SourceError) or has_sign(error, UNREADABLE)


def root_cause(error: BaseException, *, private: bool = False) -> str:
    """Return the innermost cause of an error in one line, such as ``EOFException: Unexpected end of input stream``."""
    if isinstance(error, SluicegateError):
        return error.cause or error.message
    causes = CAUSED_BY.findall(str(error)) or message(error).splitlines()[:1]
    cause: str = causes[-1]
    if private and not (cause.partition(":")[0] in OF_BYTES or "is not a Parquet file" in cause):
        return message_without_values(error)
    return cause
