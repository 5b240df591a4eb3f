"""Find the rows by which two states of a table differ: by its change feed, or by files that only one has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluicegate.frames.difference.value_equality import exact_form
from sluicegate.lake import log
from sluicegate.lake.proved_state import ProvedState
from sluicegate.schema.columns import CHANGE_COLUMNS
from sluicegate.spark import table_reader
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.type_parts import has_variant


def rows_changed_since(
    session: SparkSession, table: DeltaTable, uri: str, earlier: ProvedState, later: ProvedState
) -> DataFrame | None:
    """Return the rows that a table gained or lost, by its files, regardless of the log.

    Rows that a commit copied to other files are not included.

    Args:
        session: the session.
        table: the table as of the later state.
        uri: its address.
        earlier: the earlier state.
        later: the later state.

    Returns:
        None if rows are not in data files alone, if a file was changed in place, or if a file that the table had
        before is gone: a copied row then looks like a changed one.
    """
    new_files, replaced_files = earlier.new_files(later), earlier.replaced_files(uri, later)
    if new_files is None or replaced_files is None or not table_reader.is_plain(table):
        return None
    if not replaced_files:
        return _rows_in(session, table, uri, new_files)
    return _differing_rows(session, table, uri, new_files, replaced_files)


def has_changes_without_feed(session: SparkSession, table: DeltaTable, uri: str, since: int, until: int) -> bool:
    """Return whether commits after one version up to another changed rows of which the change feed does not tell.

    It has nothing of files whose actions say that no data changed, as those of an OPTIMIZE do. So the rows of these
    files are compared with the rows of those that took their place.

    Args:
        session: the session.
        table: the table as of a version that has all of the columns.
        uri: its address.
        since: the version that is known.
        until: the last version.

    Returns:
        True also if that cannot be told, as where rows are not in data files alone.

    Raises:
        FileNotFoundError: the log no longer has one of the versions.
    """
    files = [*_files_without_change(uri, since, until)]
    if not files:
        return False
    if any(file.get("deletionVector") for _, file in files) or not table_reader.is_plain(table):
        return True
    paths = {kind: {file["path"] for of_kind, file in files if of_kind == kind} for kind in ("add", "remove")}
    added, removed = sorted(paths["add"] - paths["remove"]), sorted(paths["remove"] - paths["add"])
    return not _differing_rows(session, table, uri, added, removed).isEmpty()


def _files_without_change(uri: str, since: int, until: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the actions of commits that add or remove a file and say that no data changed, each with its kind."""
    for version in range(since + 1, until + 1):
        for action in log.actions(uri, version):
            for kind in ("add", "remove"):
                if kind in action and not action[kind].get("dataChange", True):
                    yield kind, action[kind]


def _rows_in(session: SparkSession, table: DeltaTable, uri: str, paths: Sequence[str]) -> DataFrame:
    """Return the rows of some data files of a table."""
    schema = table_reader.schema(table)
    if not paths:
        return session.createDataFrame([], schema)
    return session.read.schema(schema).parquet(*[f"{uri.rstrip('/')}/{unquote(path)}" for path in paths])


def _differing_rows(
    session: SparkSession, table: DeltaTable, uri: str, added: Sequence[str], removed: Sequence[str]
) -> DataFrame:
    """Return the rows that only one of two sets of data files has, or has more often."""
    inserted = _rows_in(session, table, uri, added).withColumn("_change_type", F.lit("insert"))
    deleted = _rows_in(session, table, uri, removed).withColumn("_change_type", F.lit("delete"))
    return net_changes(inserted.unionByName(deleted))


def net_changes(changes: DataFrame, without: Collection[str] = ()) -> DataFrame:
    """Return the net rows of a change feed, each once: inserted more often than deleted, or less often.

    A table that was rewritten with the same rows has none.

    Args:
        changes: the changes, with Delta's columns.
        without: columns that are ignored, and which the result does not have.
    """
    data_fields = [field for field in changes.schema if field.name not in {*CHANGE_COLUMNS, *without}]
    columns = [quote_name(field.name) for field in data_fields]
    if any(has_variant(field.dataType) for field in data_fields):
        return changes.select(*columns)
    sign = F.when(F.col("_change_type").isin("insert", "update_postimage"), 1).otherwise(-1)
    identity = F.struct(*[exact_form(F.col(name), field.dataType).alias(f"c{n}") for n, (name, field) in
                     enumerate(zip(columns, data_fields, strict=True))])  # fmt: skip
    rows = changes.select(identity.alias("is"), F.struct(*columns).alias("row"), sign.alias("sign"))
    sums = rows.groupBy("is").agg(F.first("row").alias("row"), F.sum("sign").alias("sign")).where("sign <> 0")
    return sums.select("row.*")
