"""Find the columns of records that a silver query reads, by Spark's analyzed plan.

A plan numbers columns, so a lookup's column of the same name is distinct. A Spark Connect client has no plan: there,
Spark is asked whether the query works without all columns that it does not name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from sqlglot.tokenizer_core import TokenType

from sluicegate.spark import connect
from sluicegate.spark.catalyst import elements, name_of
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.tokens import Tokens

# A column in a text of Spark's, with its number: `amount#12`, `id#7L`.
_NUMBER = re.compile(r"#(\d+)L?$")
_APART = "\x1f"

# What stands before a star that is all columns, or all rows.
_BEFORE_STAR = (TokenType.SELECT, TokenType.DISTINCT, TokenType.ALL, TokenType.COMMA, TokenType.DOT, TokenType.L_PAREN)

# Gives the result of a query over records.
Run = Callable[["DataFrame"], "DataFrame"]


def plan_columns(result: DataFrame, view: str, columns: Collection[str]) -> set[str]:
    """Return the columns of a view that a query reads.

    Args:
        result: the result of the query, not of a client of Spark Connect.
        view: name of the view.
        columns: columns of the view to look for.

    Returns:
        All of ``columns`` unless the plan has the view exactly once.
    """
    plan = result._jdf.queryExecution().analyzed()
    views = [node for node in _nodes(plan) if _is_view(node, view)]
    if len(views) != 1:
        return {*columns}
    read: set[int] = set()
    for node in _needed_columns(plan, view, _numbers(plan.outputSet())):
        read |= node
    numbers = {name: number for number, name in _names_by_number(views[0].output()).items()}
    return {column for column in columns if numbers.get(column) in read or column not in numbers}


def named_columns(run: Run, records: DataFrame, query: Query, columns: Collection[str]) -> set[str]:
    """Return the columns of records that a query names, or all if it needs another one.

    Args:
        run: returns the result of the query over records.
        records: the records.
        query: the query.
        columns: columns to look for.
    """
    named = {column for column in columns if mentions(query, column)}
    if _has_star(query) or not can_do_without(run, records, {*columns} - named):
        return {*columns}
    return named


def mentions(query: Query, name: str) -> bool:
    """Return whether a query contains a name anywhere, in any case."""
    tokens = Tokens(query.text)
    return any(tokens.name(index).lower() == name.lower() for index in range(len(tokens)))


def _has_star(query: Query) -> bool:
    """Return whether a query has a star other than multiplication."""
    tokens = Tokens(query.text)
    places = (index for index in range(len(tokens)) if tokens.is_type(index, TokenType.STAR))
    return any(tokens.is_type(index - 1, *_BEFORE_STAR) for index in places)


def can_do_without(run: Run, records: DataFrame, columns: Collection[str]) -> bool:
    """Return whether a query can be analyzed over records that lack some columns."""
    if columns:
        records = records.drop(*columns)
    try:
        connect.analyze(run(records))
    except AnalysisException:
        return False
    return True


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield all nodes of a plan, with those of its subqueries."""
    yield plan
    for part in (*elements(plan.children()), *elements(plan.subqueries())):
        yield from _nodes(part)


def _is_view(node: Any, view: str) -> bool:
    return name_of(node) == "SubqueryAlias" and str(node.alias()).lower() == view.lower()


def _needed_columns(plan: Any, view: str, needed_above: set[int]) -> Iterator[set[int]]:
    """Yield the numbers of the needed columns that a plan and all below it read, down to the view."""
    if _is_view(plan, view):
        yield needed_above
        return
    if name_of(plan) == "Project" and not _numbers(plan.outputSet()) <= needed_above:
        items = [item for item in elements(plan.projectList()) if int(item.exprId().id()) in needed_above]
        needed = {number for item in items for number in _numbers(item.references())}
    else:
        needed = needed_above | _numbers(plan.references())
    for child in elements(plan.children()):
        yield from _needed_columns(child, view, needed)
    for subquery in elements(plan.subqueries()):
        yield from _needed_columns(subquery, view, _numbers(subquery.outputSet()))


def _numbers(attributes: Any) -> set[int]:
    """Return the numbers of some columns."""
    return {*_names_by_number(attributes)}


def _names_by_number(attributes: Any) -> dict[int, str]:
    """Return the names of columns by number, in one call, as each takes a while."""
    texts = str(attributes.mkString(_APART)).split(_APART)
    return {int(number[1]): text[: number.start()] for text in texts if (number := _NUMBER.search(text))}
