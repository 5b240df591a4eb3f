"""Find the rule that a value makes fail, where Spark failed with all rules and the query in one plan.

In a rule, a value that does not fit evaluates to NULL, which breaks the rule. Some functions fail instead: `element_at`
of 0, `raise_error`, `parse_json` of invalid JSON. Then nothing is committed, and rules are evaluated separately to find
the one that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluicegate.definition import Expectation
from sluicegate.errors import QueryError, SluicegateError, Where
from sluicegate.flow.model import Flow
from sluicegate.frames.rules.row_rules import LENIENT, broken_rules
from sluicegate.spark import connect, spark_errors
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.condition import Condition
from sluicegate.spark_sql.identifiers import quote_name

HINT = (
    "a rule reads a value that does not fit as NULL, but this function fails: use try_parse_json, get or others that "
    "return NULL, or test the value first; the table is unchanged"
)


@contextmanager
def name_failing_rule(
    rows: Callable[[], DataFrame | None], rules: Mapping[str, Expectation], flow: Flow, deletes: str | None = None
) -> Iterator[None]:
    """Name the rule in errors that a rule caused; other errors pass unchanged.

    Args:
        rows: returns the batch's rows before the rules; None if there are none yet.
        rules: the expectations by name.
        flow: flow of the table.
        deletes: the condition of ``apply_as_deletes``, if any.

    Raises:
        QueryError: a value makes one of the rules fail.
    """
    try:
        yield
    except SluicegateError:
        raise
    except Exception as error:
        if not spark_errors.is_value_error(error):
            raise
        frame = rows()
        if frame is None:
            raise
        of_rule = _rule_error(frame, rules, flow, deletes)
        if of_rule is None:
            raise
        if flow.private:
            raise of_rule from None
        raise of_rule from error


def _rule_error(
    rows: DataFrame, rules: Mapping[str, Expectation], flow: Flow, deletes: str | None
) -> QueryError | None:
    conditions = {name: rule.condition for name, rule in rules.items() if not rule.unique}
    for name in _failing_rules(rows, conditions):
        if (error := _condition_error(rows, conditions[name], rules[name].columns)) is not None:
            return _error(error, f"the rule {name} of {flow.table}", rules[name].text, flow, name)
    if deletes and (error := _condition_error(rows, deletes, Condition.parse(deletes).columns)) is not None:
        return _error(error, f"apply_as_deletes of {flow.table}", deletes, flow, "apply_changes")
    return None


def _failing_rules(rows: DataFrame, conditions: Mapping[str, str]) -> list[str]:
    """Return the first condition that fails, found by halving: each try evaluates the query once more."""
    names = [*conditions]
    if not names or _evaluation_error(rows, [broken_rules(conditions)]) is None:
        return []
    while len(names) > 1:
        half = names[: len(names) // 2]
        if _evaluation_error(rows, [broken_rules({name: conditions[name] for name in half})]) is not None:
            names = half
        else:
            names = names[len(half) :]
    return names


def _error(error: Exception, subject: str, text: str, flow: Flow, place: str) -> QueryError:
    readable_error = spark_errors.translate_error(error, flow.layer, flow.table, private=flow.private)
    cause = str(readable_error)
    if isinstance(readable_error, QueryError):
        cause = readable_error.cause
    message = f"{subject} cannot be evaluated: {text}"
    return QueryError(message, where=Where(table=flow.table), cause=cause, hint=HINT, at=place)


def _condition_error(rows: DataFrame, condition: str, columns: Sequence[str]) -> Exception | None:
    """Return the error of a condition over rows; None if it has none, or if its inputs fail by themselves."""
    error = _evaluation_error(rows, [broken_rules({"it": condition})])
    spelled = {name.lower(): name for name in rows.columns}
    read_columns = [F.col(quote_name(spelled[column.lower()])) for column in columns if column.lower() in spelled]
    if error is not None and read_columns and _evaluation_error(rows, read_columns) is not None:
        return None
    return error


def _evaluation_error(rows: DataFrame, columns: Sequence[Column]) -> Exception | None:
    """Return the error of evaluating only these columns over all rows."""
    with override_settings(rows.sparkSession, LENIENT):
        frame = connect.freeze(rows.select(*columns))
    try:
        frame.write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JError) as error:
        if spark_errors.is_value_error(error):
            return error
    return None
