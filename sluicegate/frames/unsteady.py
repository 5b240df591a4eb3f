"""Decide whether a query may return other rows the next time: by chance, by time, or by a choice among equals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

# Plan nodes whose value depends on the time or the user. To Spark they are constants.
MOMENTS = {"CurrentDate", "CurrentTimestamp", "CurrentTime", "Now", "LocalTimestamp", "CurrentTimeZone", "CurrentUser",
           "CurrentDatabase", "CurrentCatalog"}  # fmt: skip

# Plan nodes whose result depends on the order of the rows, as by taking the first of equals.
CHOICES = {"RowNumber", "NTile", "Lead", "Lag", "NthValue", "MaxBy", "MinBy", "MaxMinByK", "Mode",
           "ApproximatePercentile", "HistogramNumeric", "LocalLimit", "GlobalLimit", "Offset", "Sample",
           "DropDuplicates"}  # fmt: skip

# Prefixes of sketches whose result does so, too; Spark's KLL sketches drop terms at random.
SKETCHES = ("ApproxTopK", "KllSketchAgg", "KllMergeAgg", "HllSketchAgg", "HllUnionAgg", "Theta", "Tuple")

# Texts that Spark takes for a time where they are cast to one.
OF_DAYS, TIMES = {"now", "today", "tomorrow", "yesterday"}, {"date", "timestamp", "timestamp_ntz"}

# Expressions that have a plan of their own; that of IN is its child, a list query.
SUBQUERIES = {"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"}


def why_nondeterministic(frame: DataFrame) -> str:
    """Return why a query may return other rows over the same data; empty if it may not."""
    analyzed = frame._jdf.queryExecution().analyzed()
    if not analyzed.deterministic():
        return "it cannot be verified, as Spark says that its query may return another result in each run"
    if moments := sorted(set(words(analyzed)) & (MOMENTS | OF_DAYS)):
        return f"it cannot be verified, as its query depends on time or user ({', '.join(moments)})"
    return ""


def why_order_dependent(frame: DataFrame) -> str:
    """Return why a query may return other rows if some of its rows are equal; empty if it may not."""
    named = sorted(choices(frame))
    if not named:
        return ""
    return f"it cannot be verified, as its query may choose among equals ({', '.join(named)})"


def choices(frame: DataFrame) -> set[str]:
    """Return the plan nodes of a query that may choose among equal rows."""
    named = words(frame._jdf.queryExecution().analyzed())
    return {word for word in named if word in CHOICES or word.startswith(SKETCHES)}


def words(node: Any) -> Iterator[str]:
    """Yield the class names of all parts of a Spark plan, and strings in it that a cast converts to a time."""
    for part in nodes(node):
        yield (name := part.getClass().getSimpleName())
        if name == "Deduplicate" and part.keys().size() < part.output().size():
            yield "DropDuplicates"  # by some columns alone
        if name == "Cast" and part.dataType().simpleString() in TIMES:
            child = part.child()
            if child.getClass().getSimpleName() == "Literal" and (text := str(child).strip().lower()) in OF_DAYS:
                yield text


def nodes(node: Any) -> Iterator[Any]:
    """Yield all parts of a Spark plan, including subqueries."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    yield node
    for kind in ("children", "expressions"):
        try:
            parts = getattr(node, kind)()
        except Py4JError:  # only plans have expressions
            continue
        for number in range(parts.size()):
            yield from nodes(parts.apply(number))
    if node.getClass().getSimpleName() in SUBQUERIES:
        yield from nodes(node.plan())
