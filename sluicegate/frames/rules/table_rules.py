"""Check rules about whole tables on the table as it would be, before the commit.

For a batch with few changes the check is cheap: a duplicate key can only come from a new row, and so can a missing
reference, as long as the other rows were checked by the same rules and the referenced table is unchanged. Rules in SQL,
and all rules when one of them has changed, are checked on all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from sluicegate.definition.tables.table_rules import RowCount, TableRule
from sluicegate.errors import QueryError, Where
from sluicegate.flow.batch import Batch
from sluicegate.frames import column_types
from sluicegate.frames.rules.rejected import BROKEN, Refusal
from sluicegate.lake import log, tables
from sluicegate.lake.commits.commit_info import CommitInfo
from sluicegate.lake.table import Table
from sluicegate.spark import connect, table_reader
from sluicegate.spark.session import override_settings
from sluicegate.spark.spark_errors import translate_error
from sluicegate.spark_sql.identifiers import quote_name

# Column of the rejected rows with a row that a query gave, as JSON: it has other columns than the table.
FOUND = "_found"

# Bronze is read with names that are told apart by their case, and a rule may spell one in another.
NAMES = {"spark.sql.caseSensitive": "false"}

# Column with the rows of a key.
_COUNT = "_sluicegate_count"

# Facts of a commit whose rows were held to rules.
_HELD = {CommitInfo.expectations.key, CommitInfo.table_rules.key}

# Commits that change no row, though they are not a batch's: of maintenance, and of comments and properties.
_UNMOVED = {"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "CHANGE COLUMN",
            "CHANGE COLUMNS"}  # fmt: skip


def last_checked_facts(uri: str, fingerprint: str) -> CommitInfo | None:
    """Return what the last commit says of itself, if all rows were checked against these rules by then; else None."""
    table = Table(uri)
    last = table.last_own_commit
    if table.delta is None or last is None or last.ours is None or last.ours.rules != fingerprint:
        return None
    if not _HELD & last.ours.keys():  # of bronze, a commit of an offset alone, which nothing was held to
        return None
    since = table.version - last.version
    if since and any(commit.operation not in _UNMOVED for commit in log.commits(table.delta, since)):
        return None
    return last.ours


@dataclass(frozen=True)
class WouldBe:
    """Table as it would be after a batch.

    Attributes:
        rows: all rows of the table.
        count: number of the rows.
        comes: new or changed rows; None if all rows count as new.
    """

    rows: Callable[[], DataFrame]
    count: Callable[[], int]
    comes: DataFrame | None


@dataclass(frozen=True)
class _Breach:
    """Breach of a rule by the table as it would be.

    Attributes:
        words: description of the breach; empty without one.
        rows: the rows that break the rule; None if it blames none.
        count: number of these rows; 1 if the rule blames none.
    """

    words: str
    rows: DataFrame | None
    count: int


def _breach_of_bounds(bounds: RowCount, count: int) -> _Breach:
    """Return the breach of a rule on the number of a table's rows."""
    low = bounds.min is not None and count < bounds.min
    high = bounds.max is not None and count > bounds.max
    if not (low or high):
        return _Breach("", None, 0)
    return _Breach(f"it would have {count:,} rows", None, 1)


@dataclass
class TableCheck:
    """Check of one table as it would be against its rules.

    Attributes:
        batch: the batch that would change the table.
        rules: the rules by name.
    """

    batch: Batch
    rules: Mapping[str, TableRule]

    @cached_property
    def _checked_facts(self) -> CommitInfo | None:
        return last_checked_facts(self.batch.flow.target, self.batch.flow.rules)

    @cached_property
    def _stamps(self) -> dict[str, str]:
        """ID and version of each table that rules read, as opened by the batch."""
        opened = {name: self.batch.opened[uri].delta for name, uri in self.batch.flow.references.items()}
        return {name: f"{tables.table_id(table)}@{table.version()}" for name, table in opened.items() if table}

    @cached_property
    def _commits(self) -> dict[str, str | None]:
        """Identity of the commit of each table that rules read, at this version."""
        opened = {name: self.batch.opened[uri] for name, uri in self.batch.flow.references.items()}
        return {name: table.commit_identity(table.version) for name, table in opened.items() if table.delta is not None}

    def refusals(self, would_be: WouldBe) -> tuple[list[Refusal], dict[str, Any]]:
        """Return the refusals by rules that the table would break, and the commit facts of all rules."""
        refusals, counts = [], {}
        for name, rule in self.rules.items():
            breach = self._evaluate(name, rule, would_be)
            counts[name] = breach.count
            if not breach.words:
                continue
            rows, blames = breach.rows, breach.rows is not None
            if rows is None:
                rows = would_be.rows().limit(0)
            broke = rows.withColumn(BROKEN, F.array(F.lit(name)))
            words = {name: f"{name} ({breach.words})"}
            refusals.append(Refusal(words, [str(rule)], broke, of_table=True, blames=blames))
        if not self.rules:
            return refusals, {}
        facts: dict[str, Any] = {"table_rules": counts}
        if self._stamps:
            facts |= {"rules_read": self._stamps, "rules_commits": self._commits}
        return refusals, facts

    def _evaluate(self, name: str, rule: TableRule, would_be: WouldBe) -> _Breach:
        try:
            return self._breach(name, rule, would_be)
        except PySparkException as error:
            flow = self.batch.flow
            readable_error = translate_error(error, flow.layer, flow.table, private=flow.private)
            if not isinstance(readable_error, QueryError):
                raise
            hint = ""
            if not isinstance(error, AnalysisException):
                hint = "use try_cast, try_divide and the like, which return NULL"
            not_evaluated = QueryError(
                f"the rule {name} of {flow.table} cannot be evaluated",
                where=Where(table=flow.table),
                cause=readable_error.cause,
                hint=hint,
                at=name,
            )
            if flow.private:
                raise not_evaluated from None
            raise not_evaluated from error

    def _breach(self, name: str, rule: TableRule, would_be: WouldBe) -> _Breach:
        """Return the breach of a rule by the table as it would be."""
        if rule.rows is not None:
            return _breach_of_bounds(rule.rows, would_be.count())
        if columns := rule.unique or rule.foreign_key:
            column_types.demand_compared(would_be.rows(), columns, f"the rule {name}", self.batch.flow.table, name)
        if rule.unique is not None:
            rows = self._duplicate_rows(rule.unique, would_be)
        elif rule.foreign_key is not None:
            rows = self._unreferenced_rows(rule, rule.foreign_key, would_be)
        else:
            rows = self._query_rows(rule, would_be)
        count, words = rows.count(), ""
        if count:
            words = f"{count:,} rows"
        return _Breach(words, rows, count)

    def _duplicate_rows(self, names: Sequence[str], would_be: WouldBe) -> DataFrame:
        rows = self._add_awaited_columns(would_be.rows(), names)
        columns = _columns(rows, names)
        if self._checked_facts is not None and would_be.comes is not None:
            keys = self._add_awaited_columns(would_be.comes, columns).select(*map(quote_name, columns)).distinct()
            rows = _rows_with_keys(rows, columns, keys)
        counted = rows.groupBy(*map(quote_name, columns)).agg(F.count(F.lit(1)).alias(_COUNT))
        twice = counted.where(f"{_COUNT} > 1").select(*map(quote_name, columns))
        return _rows_with_keys(rows, columns, twice)

    def _unreferenced_rows(self, rule: TableRule, names: Sequence[str], would_be: WouldBe) -> DataFrame:
        table, keys = rule.foreign_key_target
        if table == self.batch.flow.table:
            rows, referenced = would_be.rows(), would_be.rows()
        else:
            rows, referenced = self._rows_in_question(table, would_be), self._reference(table)
        rows, referenced = self._add_awaited_columns(rows, names), self._add_awaited_columns(referenced, keys)
        columns = _columns(rows, names)
        reference_keys = referenced.select(
            *[F.col(quote_name(key)).alias(_key(n)) for n, key in enumerate(_columns(referenced, keys))]
        )
        has_key = reduce(and_, [F.col(quote_name(column)).isNotNull() for column in columns])
        same_key = reduce(
            and_, (_key_condition(rows, c, reference_keys, _key(number)) for number, c in enumerate(columns))
        )
        return rows.where(has_key).join(reference_keys, same_key, "left_anti")

    def _rows_in_question(self, table: str, would_be: WouldBe) -> DataFrame:
        """Return the rows whose keys another table may lack: only the new ones, if that table is unchanged."""
        if (
            would_be.comes is not None
            and self._checked_facts is not None
            and self._is_as_read(table, self._checked_facts)
        ):
            return would_be.comes
        return would_be.rows()

    def _is_as_read(self, table: str, info: CommitInfo) -> bool:
        """Return whether a table that a rule reads is at the commit of the last check."""
        if info.rules_read.get(table) != self._stamps[table]:
            return False
        return info.rules_commits.get(table) in (None, self._commits[table])

    def _add_awaited_columns(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        """Add missing columns to rows as NULL if they may still appear; else raise.

        Columns may still appear in bronze, from any file, and if flows of the table wait for their sources.
        """
        awaited = self.batch.flow.streams.keys() - self.batch.progress.streams.keys()
        if self.batch.flow.layer != "bronze" and not awaited:
            return rows
        present = {column.lower() for column in rows.columns}
        return rows.withColumns({name: F.lit(None).cast("string") for name in names if name.lower() not in present})

    def _query_rows(self, rule: TableRule, would_be: WouldBe) -> DataFrame:
        """Return the result rows of the rule's query, beside empty columns of the table."""
        views, own_table = {}, self.batch.flow.table
        for number, table in enumerate(rule.query.tables):
            views[table] = f"_sluicegate_{own_table}_rule_{number}"
            if table == own_table:
                rows = would_be.rows()
            else:
                rows = self._reference(table)
            rows.createOrReplaceTempView(views[table])
        with override_settings(self.batch.session, NAMES):
            result = connect.freeze(self.batch.session.sql(rule.query.text_over_views(views)))
        row = F.struct(*map(quote_name, result.columns))
        return result.select(F.to_json(row, {"ignoreNullFields": "false"}).alias(FOUND))

    def _reference(self, table: str) -> DataFrame:
        uri = self.batch.flow.references[table]
        opened = self.batch.opened[uri].delta
        if opened is None:
            return table_reader.read(self.batch.session, uri)
        return table_reader.read(self.batch.session, uri, opened.version(), opened)


def _columns(rows: DataFrame, names: Sequence[str]) -> list[str]:
    """Return names as the rows spell them: bronze is read with case-sensitive names."""
    spelled = {column.lower(): column for column in rows.columns}
    return [name if name in rows.columns else spelled.get(name.lower(), name) for name in names]


def _key_condition(rows: DataFrame, column: str, referenced: DataFrame, key: str) -> Column:
    """Return the foreign-key condition; a text that does not cast to the key's type never matches."""
    value, other = F.col(quote_name(column)), F.col(key)
    kinds = rows.schema[column].dataType, referenced.schema[key].dataType
    of_text = tuple(isinstance(kind, StringType) for kind in kinds)
    if of_text == (True, False):
        value = value.try_cast(kinds[1])
    elif of_text == (False, True):
        other = other.try_cast(kinds[0])
    return value == other


def _rows_with_keys(rows: DataFrame, columns: Sequence[str], keys: DataFrame) -> DataFrame:
    """Return the rows with one of these keys; NULL equals NULL."""
    renamed = keys.select(*[F.col(quote_name(column)).alias(_key(n)) for n, column in enumerate(columns)])
    same = reduce(and_, [F.col(quote_name(column)).eqNullSafe(F.col(_key(n))) for n, column in enumerate(columns)])
    return rows.join(renamed, same, "left_semi")


def _key(number: int) -> str:
    return f"_sluicegate_key_{number}"
