"""Read Delta tables at one version: plain ones by their list of data files, others through Delta.

For each version that Delta reads it rebuilds the table's state by Spark jobs, which for a table of a few files takes
ten times as long as reading them. delta-rs has the list in milliseconds. Only tables whose files alone give the rows
are read so, with the columns and types that the log has; where anything else may count, Delta reads.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sluicegate.lake import layout, log, tables
from sluicegate.lake.table_description import LANDED
from sluicegate.spark.session import override_settings

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

# Files that are read by their list; on an object store Spark asks for each of them, one after another. In larger
# tables Delta's data skipping saves more than rebuilding their state costs.
MOST_FILES = 200
MOST_OBJECTS = 8
MOST_BYTES = 256 * 1024 * 1024

# Spark looks at more files than this by a job of its own.
_LISTED_ON_DRIVER = {"spark.sql.sources.parallelPartitionDiscovery.threshold": str(MOST_FILES)}

# A table with another feature for readers is read by Delta.
FEATURES = {"timestampNtz"}

# Characters of a path that Spark's Parquet reader would take for a pattern, or Delta's log has in another form.
_ODD = re.compile(r"[^A-Za-z0-9_.=/:@+, ~-]")

# A file that is not in the table's folder, such as one of the table that this one is a shallow clone of.
_ELSEWHERE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")


def read(session: SparkSession, uri: str, version: int | None = None, opened: DeltaTable | None = None) -> DataFrame:
    """Read the rows of a table as of one version, unaffected by later commits and other reads.

    Args:
        session: the session.
        uri: the table, which exists.
        version: the version; the newest by default.
        opened: the table as opened by delta-rs; used if it has that version.
    """
    if opened is None or (version is not None and opened.version() != version):
        opened = tables.table_at(uri, version)
    paths = _files(uri, opened)
    if not paths:
        return session.read.format("delta").option("versionAsOf", opened.version()).load(uri)
    with override_settings(session, _LISTED_ON_DRIVER):
        return session.read.schema(schema(opened)).parquet(*paths)


def records(session: SparkSession, uri: str, version: int, opened: DeltaTable | None) -> DataFrame:
    """Read rows as of one version with the columns of the opened table: NULL in later columns."""
    rows = read(session, uri, version, opened)
    if opened is None or opened.version() == version:
        return rows
    return rows.to(schema(opened))


def changes(session: SparkSession, uri: str, since: int, until: int) -> DataFrame:
    """Read the change feed between two versions, both included, with Delta's columns of a change."""
    reader = session.read.format("delta").option("readChangeFeed", "true")
    return reader.option("startingVersion", since).option("endingVersion", until).load(uri)


def added_rows(session: SparkSession, uri: str, since: int, until: int) -> DataFrame:
    """Read the rows that commits after ``since`` up to ``until`` added, none of which removed any.

    Raises:
        FileNotFoundError: the log of these versions was cleaned away.
    """
    from pyspark.sql import functions as F

    def read_files(names: Sequence[str], version: int) -> DataFrame:
        rows = session.read.format("delta").option("versionAsOf", version).load(uri)
        if not names:
            return rows.limit(0)
        return rows.where(F.col("_metadata.file_name").isin(names))

    frames: list[DataFrame] = []
    names: list[str] = []
    for version in range(since + 1, until + 1):
        actions = list(log.actions(uri, version))
        if names and any("remove" in action for action in actions):  # an OPTIMIZE puts other files in their place
            frames.append(read_files(names, version - 1))
            names = []
        added = [action["add"] for action in actions if "add" in action]
        names += [unquote(file["path"]).rpartition("/")[2] for file in added if file.get("dataChange", True)]
    frames.append(read_files(names, until))
    return reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), frames)


def schema(table: DeltaTable) -> Any:
    """Return the schema of a table in Spark's types."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(table.schema().to_json()))


def is_plain(table: DeltaTable) -> bool:
    """Return whether a table is only rows in files: no feature or column property that a reader must know."""
    has_known_features = {*(table.protocol().reader_features or ())} <= FEATURES
    return (
        has_known_features and tables.is_plain(table) and not _has_reader_metadata(json.loads(table.schema().to_json()))
    )


def _has_reader_metadata(kind: Any) -> bool:
    """Return whether a field has metadata that changes how it is read: a collation, the length of a CHAR."""
    if isinstance(kind, list):
        return any(map(_has_reader_metadata, kind))
    if not isinstance(kind, dict):
        return kind == "variant" or (isinstance(kind, str) and kind.startswith("string collate"))
    parts = map(kind.get, ("type", "fields", "elementType", "keyType", "valueType"))
    return bool({*(kind.get("metadata") or ())} - {"comment", LANDED}) or any(map(_has_reader_metadata, parts))


def _files(uri: str, table: DeltaTable) -> list[str]:
    """Return the data files of a table that can be read by their list; none if Delta has to read it."""
    if not is_plain(table):
        return []
    names, sizes = (column.to_pylist() for column in tables.statistics(table, "path", "size_bytes").columns)
    if any(map(_ELSEWHERE.match, names)):
        return []
    most = MOST_FILES if layout.is_local(uri) else MOST_OBJECTS
    paths = [f"{uri.rstrip('/')}/{name}" for name in names]
    if len(paths) > most or sum(sizes) > MOST_BYTES or any(map(_ODD.search, paths)):
        return []
    return paths
