"""Analyze a gold query with Spark: are its parts equivalent to it, and is it deterministic?

A query is split by its text (spark_sql/refresh/strategy.py), and a run does not trust text. The parts to use are
recombined, and Spark analyzes both this and the user's text over the same views. The parts are used only if the two
have the same semantics (``DataFrame.sameSemantics``: equal plans, once expression IDs are numbered by their columns,
with the types of all values). This uses only SQL and public methods of a DataFrame, which Spark Connect clients have,
too; nothing is executed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from sqlglot.tokenizer_core import TokenType

from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.refresh.group_by import Grouped
from sluicegate.spark_sql.refresh.joins import ROWS, view
from sluicegate.spark_sql.tokens import Span, Tokens

# Functions without arguments whose value is nevertheless the same with each run.
_CONSTANTS = {"pi", "e", "map", "array", "struct", "named_struct"}

# A function without arguments in a plan of Spark's; a time zone or the digits of a second are none of the user's. A
# window function is none, nor is a column that Spark has named after one.
_ALONE = re.compile(r"(?<![\w.`])([A-Za-z_]\w*)\((?:\d+, )?(?:Some\([^()]*\))?\)(?! windowspecdefinition| OVER \()")

_GENERATOR = re.compile(r"^[ :|+-]*Generate ", re.MULTILINE)

# Words that Spark takes for a time where it makes a date or a timestamp of a constant text.
_MOMENT = re.compile(r"now|today|tomorrow|yesterday", re.IGNORECASE)

# Two time zones in which it is never the same day.
_ZONES, _APART = ("+14:00", "-12:00"), timedelta(hours=26)
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)")

_FOUND = "_sluicegate_found"

# Optimizer rules that would prune a query over empty tables.
_OFF = ("PropagateEmptyRelation", "ConvertToLocalRelation", "OptimizeOneRowPlan", "PruneFilters", "NullPropagation")

# Settings that turn code generation off, for where the generated code is wrong.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def keep_nulls_of_maps(result: DataFrame, tables: Iterable[DataFrame], text: str | None) -> None:
    """Turn the session's code generation off from now on, if a query groups by a map.

    Spark puts a map's entries in order before it groups by it (``MapSort``), and the code that 4.2 generates for that
    takes a value that is NULL for 0: ``{b: NULL}`` falls into the group of ``{b: 0}``. Interpreted, it does not.

    Args:
        result: result of the query.
        tables: the tables that it reads.
        text: text of the query; None for a function.
    """
    # No function that makes a map has another name.
    may = text is None or "map" in text.lower() or any("map<" in table.schema.simpleString() for table in tables)
    if not may:
        return
    result.createOrReplaceTempView(_FOUND)
    if "mapsort(" in _plans(result.sparkSession, f"SELECT * FROM {_FOUND}"):
        for name, value in INTERPRETED.items():
            result.sparkSession.conf.set(name, value)


def why_not_equivalent(session: SparkSession, query: Query, grouped: Grouped) -> str:
    """Return why the parts of a query are not equivalent to it; empty if Spark confirms that they are.

    Args:
        session: the session, in which the views of the query's FROM (spark_sql/refresh/joins.py) are made.
        query: the user's query.
        grouped: the query split into parts.
    """
    views = {grouped.table: ROWS, **{name: view(name) for name in grouped.joins}}
    texts = [grouped.recomposed]
    if grouped.sums:
        calls = [Span(span.first, span.last, grouped.distinct_calls[call.number].sql()) for call, span in grouped.sums]
        texts.append(query.text_over_views(views, calls))
    with suppress_error_log():
        user = session.sql(query.text_over_views(views))
        try:
            same = all(user.sameSemantics(session.sql(text)) for text in texts)
        except AnalysisException:
            same = False
    if same:
        return ""
    return "its parts are not equivalent to the query, according to Spark"


def is_nondeterministic(session: SparkSession, sql: str) -> bool:
    """Return whether Spark finds a query nondeterministic: an aggregate function takes no such argument."""
    with suppress_error_log():
        try:
            _ = session.sql(f"SELECT count((SELECT count(*) FROM ({sql}\n) AS _all))").schema
        except AnalysisException as error:
            if "NONDETERMINISTIC" in (error.getCondition() or "").replace("_", ""):
                return True
            raise
    return False


def is_row_for_row(session: SparkSession, texts: Sequence[str], view_: str) -> bool:
    """Return whether expressions over a view give one value for each row, and are deterministic."""
    with suppress_error_log():
        try:
            _ = session.sql(f"SELECT {', '.join(f'count({text})' for text in texts)} FROM {view_}").schema
        except AnalysisException:
            return False
    return True


def moment_of(session: SparkSession, conditions: Sequence[str], schema: StructType) -> str:
    """Return what makes conditions depend on time, user or chance; empty if nothing does."""
    query = Query.parse(f"SELECT {', '.join(f'({text})' for text in conditions)} FROM made")
    analysis = Analysis(session, query, {"made": schema})
    if calls := analysis.run_dependent_calls:
        return calls
    if is_nondeterministic(session, analysis.text_over_views):
        return "a function that returns another value each time"
    return ""


@dataclass(frozen=True)
class Analysis:
    """Query as Spark has analyzed it.

    Attributes:
        session: the session.
        query: the query.
        schemas: the columns of the tables that it reads.
    """

    session: SparkSession
    query: Query
    schemas: Mapping[str, StructType]

    @property
    def makes_rows(self) -> bool:
        """Whether a generator returns any number of rows for one."""
        return _GENERATOR.search(self._plan) is not None

    @cached_property
    def run_dependent_calls(self) -> str:
        """Calls or strings that make the query depend on time or user; empty if there are none."""
        alone = {f"{name.lower()}()" for name in _ALONE.findall(self._plan) if name.lower() not in _CONSTANTS}
        if alone:
            return ", ".join(sorted(alone))
        if not _MOMENT.search(self.query.text):
            return ""
        for table, name in self._views.items():
            self.session.createDataFrame([], self.schemas[table]).createOrReplaceTempView(name)
        east, west = (_optimized_plan(self.session, self.query.text_over_views(self._views), zone) for zone in _ZONES)
        if _are_same_plans(east, west):
            return ""
        return "a string that means a time of the run, such as today"

    @property
    def text_over_views(self) -> str:
        """Query over empty tables with these columns, which ``run_dependent_calls`` created."""
        return self.query.text_over_views(self._views)

    @cached_property
    def _plan(self) -> str:
        """Analyzed plan, over empty tables."""
        for table, name in self._views.items():
            _empty_table(self.session, self.schemas[table]).createOrReplaceTempView(name)
        text = _plans(self.session, self._masked_text)
        return text.partition("== Analyzed Logical Plan ==")[2].partition("\n== Optimized Logical Plan ==")[0]

    @property
    def _masked_text(self) -> str:
        """Query without strings that look like a call: a plan shows strings without quotes.

        If Spark rejects that, since a string is a type or a name, the query stays unchanged.
        """
        plain, tokens = self.query.text_over_views(self._views), Tokens(self.query.text)
        texts = [i for i in range(len(tokens)) if tokens.is_type(i, TokenType.STRING, TokenType.RAW_STRING)]
        spans = [Span(i, i, re.sub(r"[()]|(?<=^['\"])(?=['\"]$)", "_", tokens.raw(i))) for i in texts]
        other = self.query.text_over_views(self._views, spans)
        with suppress_error_log():
            try:
                _ = self.session.sql(other).schema
            except PySparkException:
                return plain
        return other

    @property
    def _views(self) -> dict[str, str]:
        return {table: f"_sluicegate_like_{number}" for number, table in enumerate(self.query.tables)}


def _empty_table(session: SparkSession, schema: StructType) -> DataFrame:
    """Return an empty table with these columns; nothing is read for it."""
    return session.range(0).select(*[F.lit(None).cast(f.dataType).alias(f.name) for f in schema])


def _plans(session: SparkSession, text: str) -> str:
    settings = {"spark.sql.debug.maxToStringFields": "1000000", "spark.sql.maxPlanStringLength": "2147483632"}
    with override_settings(session, settings):
        return str(session.sql(f"EXPLAIN EXTENDED {text}").collect()[0][0])


def _optimized_plan(session: SparkSession, text: str, zone: str) -> list[str]:
    """Return the optimized plan in a time zone, split at timestamps."""
    rules = ",".join(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _OFF)
    with override_settings(session, {"spark.sql.session.timeZone": zone, "spark.sql.optimizer.excludedRules": rules}):
        plan = _plans(session, text).partition("== Optimized Logical Plan ==")[2].partition("\n== Physical Plan ==")[0]
    numbers: dict[str, str] = {}
    plan = re.sub(r"#\d+", lambda found: numbers.setdefault(found[0], f"#{len(numbers)}"), plan.replace(zone, ""))
    return _TIMESTAMP.split(plan)


def _are_same_plans(east: Sequence[str], west: Sequence[str]) -> bool:
    """Return whether two plans are equal, though a moment is printed differently in the two zones."""
    return len(east) == len(west) and all(a == b or _is_same_moment(a, b) for a, b in zip(east, west, strict=True))


def _is_same_moment(east: str, west: str) -> bool:
    if not (_TIMESTAMP.fullmatch(east) and _TIMESTAMP.fullmatch(west)):
        return False
    return datetime.fromisoformat(east) - datetime.fromisoformat(west) == _APART


@contextmanager
def suppress_error_log() -> Iterator[None]:
    """Keep refusals out of Spark's error log, where they are only an answer."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")  # Spark fails with one of another class
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
