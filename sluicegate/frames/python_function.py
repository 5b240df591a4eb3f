"""Run Python transforms: functions of the user that return the rows of a table.

In silver the function maps a batch of records, ``(batch: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame``, as
in the ``foreachBatch`` of Structured Streaming; rows keep ``_chunk`` and ``_pos``, by which every record is reconciled.
In gold it maps all rows of some tables: ``(tables: Mapping[str, DataFrame]) -> DataFrame``.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sluicegate.definition.tables.python_function import NoTransform, PythonTransform
from sluicegate.errors import TransformError, Where
from sluicegate.schema.columns import ENGINE_COLUMNS, IDENTITY
from sluicegate.spark import connect
from sluicegate.spark_sql.types import REFUSED, REFUSED_IN_WORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Transform = Callable[..., DataFrame]


def load(pipeline_folder: Path, reference: str) -> Transform:
    """Run a pipeline's Python file anew each time, and return the function in it.

    The file is imported as a separate module, under a name that no other module can have, without a ``__pycache__``,
    and without access to files beside it.

    Args:
        pipeline_folder: the folder of the pipeline.yaml.
        reference: ``file.py:function``, as in the definition.

    Raises:
        TransformError: the function does not exist, or the file fails when it is run.
    """
    try:
        transform = PythonTransform.find(pipeline_folder, reference)
    except NoTransform as error:
        where = Where(file=str(error.file or pipeline_folder / reference.rpartition(":")[0]), line=error.line)
        raise TransformError(error.message, where=where, hint=error.hint) from None
    return load_function(transform)


def load_function(transform: PythonTransform) -> Transform:
    """Load the function of a transform by running its file.

    Raises:
        TransformError: the function no longer exists, or the file fails when it is run.
    """
    function = getattr(_run(transform), transform.function, None)
    if not callable(function):
        raise TransformError(
            f"{transform.file.name} rebinds {transform.function}, so it is no longer a function",
            where=Where(file=str(transform.file), line=transform.line),
            hint="rename the later assignment to that name",
        )
    return function  # type: ignore[no-any-return]


def _run(transform: PythonTransform) -> ModuleType:
    module = ModuleType(f"_sluicegate_transform_{transform.fingerprint}")
    module.__file__ = str(transform.file)
    # Some of the standard library looks its caller up there, as dataclasses do. Left there, pickle would send workers
    # the module's name instead of its functions, and they could not import it.
    sys.modules[module.__name__] = module
    try:
        exec(compile(transform.source, str(transform.file), "exec"), module.__dict__)  # noqa: S102
    except (Exception, SystemExit) as error:
        is_sibling = isinstance(error, ModuleNotFoundError) and (transform.file.parent / f"{error.name}.py").exists()
        hint = "correct the file; it is imported once, before any record is read"
        if is_sibling:
            hint = "move its code into this file: a transform is one file, and can import only installed packages"
        raise TransformError(
            f"{transform.file.name} cannot be run",
            where=Where(file=str(transform.file), line=_line(error, str(transform.file)) or 1),
            cause=_cause(error),
            hint=hint,
        ) from error
    finally:
        sys.modules.pop(module.__name__, None)
    return module


def run(
    function: Transform,
    batch: DataFrame,
    tables: Mapping[str, DataFrame],
    name: str,
    *,
    identity: Sequence[str] = IDENTITY,
    private: bool = False,
) -> DataFrame:
    """Return the result of a transform over a batch.

    Args:
        function: the transform, from ``load``.
        batch: the records, with ``_chunk`` and ``_pos``.
        tables: the tables that it may read, by name, without the identities of their rows.
        name: the silver table, for messages.
        identity: the columns that identify a record of the batch.
        private: whether values may be personal data; the text of an error is then withheld.

    Raises:
        TransformError: the function fails, reads another table, or does not return a DataFrame with the
            columns of ``identity`` as they are in the batch, each column once, and no other new column whose name
            begins with ``_``.
    """
    readable = _Tables(tables, "the lookups")
    rows = _result(function, (batch, readable), name, private)
    _demand(_fault(rows) or _identity_fault(rows, batch, identity), function, name)
    return rows  # type: ignore[no-any-return]


def run_over_tables(function: Transform, tables: Mapping[str, DataFrame], name: str, *, private: bool) -> DataFrame:
    """Return the result of a function over all rows of some tables.

    Args:
        function: the function, from ``load``.
        tables: the tables that it may read, by name, without the identities of their rows.
        name: the gold table, for messages.
        private: see ``run``.

    Raises:
        TransformError: the function fails, reads another table, or does not return a DataFrame with each column
            once and no name that begins with ``_``, or that Delta cannot have.
    """
    rows = _result(function, (_Tables(tables, "reads"),), name, private)
    _demand(_fault(rows) or _name_fault(rows), function, name)
    return rows  # type: ignore[no-any-return]


def _result(function: Transform, arguments: tuple[Any, ...], name: str, private: bool) -> Any:
    """Return the result of the user's function, of any type."""
    from pyspark.sql import DataFrame

    file, line = _place(function)
    try:
        result = function(*arguments)
        if isinstance(result, DataFrame):
            return connect.analyze(result)
        return result
    except (Exception, SystemExit) as error:
        hint = "correct the function; nothing was written"
        if isinstance(error, _NoTable):
            hint = error.hint
        stopped = f"{_function_title(function)} failed"
        where = Where(table=name, file=file, line=_line(error, file) or line)
        if private:
            raise TransformError(stopped, where=where, cause=type(error).__name__, hint=hint) from None
        raise TransformError(stopped, where=where, cause=_cause(error), hint=hint) from error


def _demand(fault: tuple[str, str] | None, function: Transform, name: str) -> None:
    """Raise an error for a fault, with its hint, of a function's result."""
    if fault:
        fault_text, hint = fault
        file, line = _place(function)
        raise TransformError(
            f"{_function_title(function)} returned {fault_text}",
            where=Where(table=name, file=file, line=line),
            hint=hint,
        )


def _fault(result: Any) -> tuple[str, str] | None:
    """Return the fault of a result for any table, with a hint; None if there is none."""
    from pyspark.sql import DataFrame

    if result is None:
        return "None instead of a DataFrame", "return the DataFrame"
    if not isinstance(result, DataFrame):
        return f"a {type(result).__name__} instead of a DataFrame", "return the DataFrame"
    lower = [column.lower() for column in result.columns]
    for column in result.columns:
        if lower.count(column.lower()) > 1:
            hint = f"drop one of them, as in tables[…].drop({column!r}), or join on the name: join(other, {column!r})"
            return f"a duplicate column {column}", hint
    return None


def _name_fault(rows: DataFrame) -> tuple[str, str] | None:
    """Return the fault of a column name in gold, with a hint."""
    for column in rows.columns:
        if column.startswith("_"):
            return f"a column {column}", "give it a name that does not begin with _, as the engine's own do"
        if REFUSED & set(column):
            hint = f"Delta takes {REFUSED_IN_WORDS} in a name: rename it with alias()"
            return f"a column {column}", hint
    return None


def _identity_fault(rows: DataFrame, batch: DataFrame, identity: Sequence[str]) -> tuple[str, str] | None:
    """Return the fault of record identities or of a new column's name, with a hint."""
    for column in identity:
        if column not in rows.columns:
            hint = f"keep {' and '.join(identity)}, which identify the record of a row, in every select"
            return f"rows without {column}", hint
        kind, kind_in_batch = (frame.schema[column].dataType.simpleString().upper() for frame in (rows, batch))
        if kind != kind_in_batch:
            return f"{column} as {kind}", f"leave {column} as it is in the batch, a {kind_in_batch}"
    for column in rows.columns:
        if column.startswith("_") and column not in batch.columns:
            return f"a new column {column}", "give it a name that does not begin with _, as the engine's own do"
    return None


class _NoTable(KeyError):
    """Raised for a table that the definition does not let the transform read."""

    def __init__(self, table: str, tables: list[str], field: str) -> None:
        super().__init__(table)
        self.hint = f"add {table} to {field} of this table's definition, which has {', '.join(tables) or 'none'}"


class _Tables(dict[str, "DataFrame"]):
    """Tables that a transform may read, without their provenance columns."""

    def __init__(self, tables: Mapping[str, DataFrame], field: str) -> None:
        super().__init__({table: frame.drop(*ENGINE_COLUMNS) for table, frame in tables.items()})
        self.field = field

    def __missing__(self, table: str) -> DataFrame:
        raise _NoTable(table, list(self), self.field)


def _function_title(function: Transform) -> str:
    return f"the transform {getattr(function, '__name__', 'of this table')}"


def _place(function: Transform) -> tuple[str | None, int | None]:
    """Return the file and first line of the user's function, through decorators that say what they wrap."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not code:
        return None, None
    return code.co_filename, code.co_firstlineno


def _line(error: BaseException, file: str | None) -> int | None:
    """Return the line of the user's file that was executing when the error was raised."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    return next((f.lineno for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == file), None)


def _cause(error: BaseException) -> str:
    """Return the type and first line of an error, without Spark's plan and stack."""
    from sluicegate.spark.spark_errors import message

    lines = message(error).splitlines()
    if not lines:
        return type(error).__name__
    return f"{type(error).__name__}: {lines[0]}"
