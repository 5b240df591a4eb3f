"""COPY INTO: selected files from anywhere into a bronze table, each once, by the table's own ledger.

As on Databricks a file is known by its path; one that was copied or landed before is left out unless forced. With
``--force`` its rows are added once more. A file that could not be read is retried by the next copy that names it.
https://docs.databricks.com/aws/en/sql/language-manual/delta-copy-into
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sluicegate.console import say
from sluicegate.definition.pipeline import bronze_table
from sluicegate.flow.report import RunReport, TableReport
from sluicegate.jobs import base
from sluicegate.jobs import layer as layer_job
from sluicegate.lake import layout
from sluicegate.landing import idempotent_commands
from sluicegate.landing.copy import Copy, moment
from sluicegate.landing.copy_options import CopyOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition import BronzeTable, Pipeline


RESULT = ("num_affected_rows", "num_inserted_rows", "num_skipped_corrupt_files")


def parser() -> argparse.ArgumentParser:
    """The command line of ``spark_jobs/tools/copy_into.py``."""
    made = base.parser("copy_into")
    made.add_argument("--table", required=True, help="bronze table to copy into")
    made.add_argument("--source", required=True, help="folder or file to copy, path or URI")
    made.add_argument("--files", action="append", default=[], help="a file below the folder; repeatable")
    made.add_argument("--pattern", help="pattern that names below the folder must match")
    made.add_argument("--force", action="store_true", help="read files again that the ledger knows")
    made.add_argument("--modified-after", type=moment, help="only files modified after this time (UTC)")
    made.add_argument("--modified-before", type=moment, help="only files modified before this time (UTC)")
    made.add_argument("--how", type=json.loads, default={}, help="JSON: select, columns, format, options, merge_schema")
    made.add_argument("--validate", type=int, nargs="?", const=0, help="write nothing; show this many records")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """The whole of ``spark_jobs/tools/copy_into.py``; returns the exit code."""
    return base.guarded(lambda: _copy(parser().parse_args(argv)))


def _copy(arguments: argparse.Namespace) -> RunReport:
    pipeline, at, facts = base.subject(arguments)
    name = arguments.table
    table = bronze_table(pipeline, name)
    copy = Copy(
        arguments.source, tuple(arguments.files), arguments.pattern, arguments.force,
        arguments.modified_after, arguments.modified_before, CopyOptions.of(arguments.how),
    )  # fmt: skip
    if arguments.validate is not None:
        return _validate(copy, pipeline, name, table, at, arguments.validate)
    with base.writing(at, str(facts.get("run_id") or f"copy into {name}"), target=pipeline.settings.target):
        done = run(copy, pipeline, name, at, facts)
    return replace(done, notes=[json.dumps(result(done.tables[0]))])


def run(
    copy: Copy,
    pipeline: Pipeline,
    name: str,
    at: layout.Lake,
    facts: Mapping[str, Any],
    spark: SparkSession | None = None,
) -> RunReport:
    """Copies the files; the caller holds the pipeline's lock.

    Args:
        copy: which files, and how.
        pipeline: the definition.
        name: the bronze table.
        at: the lake.
        facts: who runs this.
        spark: a session to use instead of one of its own.

    Raises:
        UserError: the files cannot be read with the options of the copy; nothing was entered.
        LandingMissing: there is no such folder, or no such file in it.
    """
    table = bronze_table(pipeline, name)
    entered = copy.discover(name, table, at).new["path"].to_pylist()
    if entered and copy.how.facts:
        # Ledger entries are never taken back: a mistake must be found before.
        from sluicegate.bronze import preview
        from sluicegate.spark import session

        spark = spark or session.open_session("copy_into", at, private=bool(pipeline.pii))
        effective, target = copy.how.table(name, table), at.table("bronze", name)
        copy = replace(
            copy,
            how=preview.checked_copy(spark, name, effective, target, entered, copy.how, private=bool(pipeline.pii)),
        )
    if copy.force and (tries := idempotent_commands.begun(at, name, copy.name).chunks):
        say(
            f"{name}: this copy was begun before and did not end; what it entered then (chunk "
            f"{', '.join(map(str, tries))}) is not read a second time. To copy the files once more, repeat it."
        )
    done = layer_job.Job(pipeline, at, "bronze", facts, spark, only=name, finder=copy.discover).run()
    if copy.force:
        idempotent_commands.ended(at, name, copy.name)
    return done


def result(done: TableReport) -> dict[str, int]:
    """Result of COPY INTO as on Databricks, by the names in ``RESULT``."""
    return dict(zip(RESULT, (done.read, done.read, len(done.failed)), strict=True))


def masked(row: Mapping[str, Any], personal: frozenset[str]) -> dict[str, Any]:
    """Record for display, with personal columns hidden, and those that may hold a whole record."""
    hidden = {*personal, "_rescued_data", "_corrupt_record"} if personal else personal
    return {c: "***" if c.lower() in hidden and value is not None else value for c, value in row.items()}


def _preview(copy: Copy, pipeline: Pipeline, name: str, target: str, paths: list[str], shown: int) -> dict[str, Any]:
    from sluicegate.bronze import preview
    from sluicegate.spark import session
    from sluicegate.spark.spark_errors import readable

    private, table = bool(pipeline.pii), copy.how.table(name, pipeline.bronze[name])
    spark = session.open_session("validate", private=private)
    try:
        return preview.preview(spark, name, table, target, paths, shown, copy.how, private=private)
    except Exception as error:
        raise readable(error, "bronze", name, private=private) from (None if private else error)


def _validate(copy: Copy, pipeline: Pipeline, name: str, table: BronzeTable, at: layout.Lake, shown: int) -> RunReport:
    """Reads the files as a copy would, without writing."""
    say(f"{pipeline.name}.{name}: nothing is written")
    found = copy.discover(name, table, at)
    paths = found.new["path"].to_pylist()
    seen: dict[str, Any] = {"rows": 0, "corrupt": 0, "rescued": 0, "failed": {}, "sample": []}
    if paths:
        seen = _preview(copy, pipeline, name, at.table("bronze", name), paths, shown)
    for row in seen["sample"]:
        say("  " + json.dumps(masked(row, pipeline.pii), default=str, ensure_ascii=False))
    done = TableReport(
        name, "bronze", "validated", read=seen["rows"], corrupt=seen["corrupt"], rescued=seen["rescued"],
        failed=seen["failed"], files=len(paths), bytes=found.bytes,
    )  # fmt: skip
    say(done.line())
    for remark in done.remarks():
        say(remark)
    return RunReport(pipeline.name, "bronze", [done])
