"""COPY INTO: copy selected files into a bronze table, each once, by the table's own ledger.

As on Databricks, a file is identified by its path; one that was copied or landed before is skipped unless forced. With
``--force`` its rows are added again. A file that could not be read is retried by the next copy that names it.
https://docs.databricks.com/aws/en/sql/language-manual/delta-copy-into
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sluicegate.console import say
from sluicegate.definition.pipeline.model import bronze_table
from sluicegate.flow.report import RunReport
from sluicegate.flow.table_report import TableReport
from sluicegate.jobs import base, layer_job
from sluicegate.lake import layout
from sluicegate.landing import idempotent_commands
from sluicegate.landing.chosen.copy import Copy, parse_moment
from sluicegate.landing.chosen.copy_options import CopyOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition import BronzeTable, Pipeline


RESULT = ("num_affected_rows", "num_inserted_rows", "num_skipped_corrupt_files")


def parser() -> argparse.ArgumentParser:
    """Return the command line of ``spark_jobs/tools/copy_into.py``."""
    job_parser = base.parser("copy_into")
    job_parser.add_argument("--table", required=True, help="bronze table to copy into")
    job_parser.add_argument("--source", required=True, help="folder or file to copy, path or URI")
    job_parser.add_argument("--files", action="append", default=[], help="a file below the folder; repeatable")
    job_parser.add_argument("--pattern", help="pattern that names below the folder must match")
    job_parser.add_argument("--force", action="store_true", help="also read files that are already in the ledger")
    job_parser.add_argument("--modified-after", type=parse_moment, help="only files modified after this time (UTC)")
    job_parser.add_argument("--modified-before", type=parse_moment, help="only files modified before this time (UTC)")
    job_parser.add_argument(
        "--how", type=json.loads, default={}, help="JSON: select, columns, format, options, merge_schema"
    )
    job_parser.add_argument("--validate", type=int, nargs="?", const=0, help="write nothing; show this many records")
    return job_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``spark_jobs/tools/copy_into.py``; return the exit code."""
    return base.run_guarded(lambda: _copy(parser().parse_args(argv)))


def _copy(arguments: argparse.Namespace) -> RunReport:
    pipeline, lake, facts = base.job_context(arguments)
    name = arguments.table
    table = bronze_table(pipeline, name)
    copy = Copy(
        arguments.source, tuple(arguments.files), arguments.pattern, arguments.force,
        arguments.modified_after, arguments.modified_before, CopyOptions.from_facts(arguments.how),
    )  # fmt: skip
    if arguments.validate is not None:
        return _validate(copy, pipeline, name, table, lake, arguments.validate)
    with base.hold_job_lock(pipeline, lake, facts, f"copy into {name}"):
        report = run(copy, pipeline, name, lake, facts)
    return replace(report, notes=[json.dumps(result(report.tables[0]))])


def run(
    copy: Copy,
    pipeline: Pipeline,
    name: str,
    lake: layout.Lake,
    facts: Mapping[str, Any],
    spark: SparkSession | None = None,
) -> RunReport:
    """Copy the files; the caller holds the pipeline's lock.

    Args:
        copy: files and options of the copy.
        pipeline: the definition.
        name: the bronze table.
        lake: the lake.
        facts: facts on the run.
        spark: a session to use instead of a new one.

    Raises:
        UserError: the files cannot be read with the options of the copy; nothing was entered.
        LandingMissing: the folder, or a file in it, does not exist.
    """
    table = bronze_table(pipeline, name)
    entered = copy.discover(name, table, lake).new["path"].to_pylist()
    if entered and copy.how.facts:
        # Ledger entries are never taken back: a mistake must be found before.
        from sluicegate.bronze import preview
        from sluicegate.spark import session

        spark = spark or session.open_session("copy_into", lake, private=bool(pipeline.pii))
        effective, target = copy.how.table(name, table), lake.table("bronze", name)
        copy = replace(
            copy,
            how=preview.checked_copy(spark, name, effective, target, entered, copy.how, private=bool(pipeline.pii)),
        )
    if copy.force and (tries := idempotent_commands.unfinished_command(lake, name, copy.name).chunks):
        say(
            f"{name}: this copy was started before but did not finish; the files that it entered then (chunk "
            f"{', '.join(map(str, tries))}) are not read again. To copy them once more, repeat the command."
        )
    report = layer_job.Job(pipeline, lake, "bronze", facts, spark, only=name, finder=copy.discover).run()
    if copy.force:
        idempotent_commands.record_end(lake, name, copy.name)
    return report


def result(report: TableReport) -> dict[str, int]:
    """Return the result of COPY INTO as on Databricks, by the names in ``RESULT``."""
    return dict(zip(RESULT, (report.read, report.read, len(report.failed)), strict=True))


def mask_record(row: Mapping[str, Any], personal: frozenset[str]) -> dict[str, Any]:
    """Mask a record for display: personal columns, and those that may hold a whole record."""
    if not personal:
        return dict(row)
    hidden = {*personal, "_rescued_data", "_corrupt_record"}
    masks = {column: "***" for column, value in row.items() if column.lower() in hidden and value is not None}
    return {**row, **masks}


def _preview(copy: Copy, pipeline: Pipeline, name: str, target: str, paths: list[str], shown: int) -> dict[str, Any]:
    from sluicegate.bronze import preview
    from sluicegate.spark import session
    from sluicegate.spark.spark_errors import translate_error

    private, table = bool(pipeline.pii), copy.how.table(name, pipeline.bronze[name])
    spark = session.open_session("validate", private=private)
    try:
        return preview.preview(spark, name, table, target, paths, shown, copy.how, private=private)
    except Exception as error:
        raise translate_error(error, "bronze", name, private=private) from (None if private else error)


def _validate(
    copy: Copy, pipeline: Pipeline, name: str, table: BronzeTable, lake: layout.Lake, shown: int
) -> RunReport:
    """Read the files as a copy would, without writing."""
    say(f"{pipeline.name}.{name}: nothing is written")
    discovery = copy.discover(name, table, lake)
    paths = discovery.new["path"].to_pylist()
    preview: dict[str, Any] = {"rows": 0, "corrupt": 0, "rescued": 0, "failed": {}, "sample": []}
    if paths:
        preview = _preview(copy, pipeline, name, lake.table("bronze", name), paths, shown)
    for row in preview["sample"]:
        say("  " + json.dumps(mask_record(row, pipeline.pii), default=str, ensure_ascii=False))
    report = TableReport(
        name, "bronze", "validated", read=preview["rows"], corrupt=preview["corrupt"], rescued=preview["rescued"],
        failed=preview["failed"], files=len(paths), bytes=discovery.bytes,
    )  # fmt: skip
    say(report.line(), *report.remarks())
    return RunReport(pipeline.name, "bronze", [report])
