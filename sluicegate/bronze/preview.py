"""Preview files for a copy: what they give and how they are read, before anything is entered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sluicegate.bronze import copy_reader
from sluicegate.bronze.ingest import AS_DEFINED, READING
from sluicegate.bronze.reader import Reader
from sluicegate.bronze.records import records, schema_factory
from sluicegate.bronze.text import decoded_files
from sluicegate.bronze.unreadable_files import Failure, find_unreadable
from sluicegate.console import say
from sluicegate.definition import BronzeTable
from sluicegate.errors import QueryError, SchemaMismatch
from sluicegate.landing.chosen.copy_options import CopyOptions
from sluicegate.spark.session import new_session, override_settings
from sluicegate.spark.spark_errors import root_cause


def preview(
    session: SparkSession,
    name: str,
    table: BronzeTable,
    target: str,
    paths: list[str],
    shown: int,
    copy: CopyOptions = AS_DEFINED,
    *,
    private: bool = False,
) -> dict[str, Any]:
    """Read some files without writing anything; ``private`` as in ``spark_errors``.

    Returns:
        ``rows``, ``corrupt`` and ``rescued`` as numbers of records, ``failed`` files with the reason, and the first
        records as ``sample``.
    """
    session = new_session(session)  # the caller's keeps its settings, also where two threads look at files
    schema = schema_factory(name, table, target)
    with override_settings(session, READING), decoded_files.open_copies(session, target, thorough=True) as decoded:
        damaged: dict[str, str] = {}

        def reader(damaged: dict[str, str]) -> Reader:
            return Reader(session, schema(), damaged, decoded=decoded)

        try:
            counted = _count_rows(records(reader(damaged), copy, paths, strict=True), shown)
            failed: dict[str, Failure] = {}
        except Exception as error:
            failed = find_unreadable(lambda part: records(reader({}), copy, part), paths, error, private=private)
            readable = [path for path in paths if path not in failed]
            counted = _count_rows(records(reader(damaged), copy, readable), shown)
    return {**counted, "failed": {path: reason for path, (reason, _) in failed.items()} | damaged}


def checked_copy(
    session: SparkSession, name: str, table: BronzeTable, target: str, paths: list[str], copy: CopyOptions,
    *, private: bool = False,
) -> CopyOptions:  # fmt: skip
    """Return the copy with the fields of its files, after a check that its options can be applied.

    Raises:
        SchemaMismatch: the SELECT reads a field that no file has, or gives columns that are not allowed.
        QueryError: Spark rejects the SELECT.
    """
    session = new_session(session)  # the caller's keeps its settings, also where two threads look at files
    schema = schema_factory(name, table, target)
    with override_settings(session, READING), decoded_files.open_copies(session, target, thorough=True) as decoded:
        try:
            if not copy.selects:
                records(Reader(session, schema(), decoded=decoded), copy, paths)
                return copy
            copy = replace(copy, fields=copy_reader.fields(Reader(session, schema(), decoded=decoded), paths))
            copy_reader.read(Reader(session, schema()), copy, [], strict=True)
        except (SchemaMismatch, QueryError):
            raise
        except Exception as error:
            # A file cannot be read: that is found again, and reported of that file, when the others are read.
            say(f"{name}: not all files can be read ({root_cause(error, private=private)})")
    return copy


def _count_rows(frame: DataFrame, shown: int) -> dict[str, Any]:
    frame = frame.persist()  # else Spark would read only the columns that are counted, and find other records corrupt
    sums = frame.selectExpr("count(1) AS rows", "count(_corrupt_record) AS corrupt", "count(_rescued_data) AS rescued")
    try:
        return {**sums.collect()[0].asDict(), "sample": [row.asDict() for row in frame.limit(shown).collect()]}
    finally:
        frame.unpersist()
