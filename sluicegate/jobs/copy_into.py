"""COPY INTO: chosen files from anywhere into a bronze table, each once, by the table's own ledger.

As on Databricks a file is known by its path, and one that was copied or landed before is left out unless forced;
forced, its rows come once more. A file that could not be read is tried again by the next copy that names it.
https://docs.databricks.com/aws/en/sql/language-manual/delta-copy-into
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.errors import LandingMissing, PipelineMissing, SourceError, UserError, Where
from sluicegate.flow.report import RunReport, TableReport, files, say
from sluicegate.jobs import layer as layer_job
from sluicegate.lake import tables
from sluicegate.lake.lock import pipeline_lock
from sluicegate.landing import discovery, file_status, folders, idempotent_commands
from sluicegate.landing import file_names as naming
from sluicegate.landing.copy_options import CopyOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition import BronzeTable, Pipeline


# As Spark has it (HadoopFSUtils.shouldFilterOutPathName), also for files that it is told to read.
HIDDEN = re.compile(r"(^|/)(\.[^/]*|_[^=/]*|[^/]*\._COPYING_)$")

RESULT = ("num_affected_rows", "num_inserted_rows", "num_skipped_corrupt_files")


@dataclass(frozen=True)
class Copy:
    """Which files to copy.

    Attributes:
        source: folder or file, path or URI.
        files: names below the folder; none means all.
        pattern: pattern that names below the folder must match.
        force: whether files that the ledger knows are read again, their rows coming once more.
        modified_after: only files modified after this time.
        modified_before: only files modified before this time.
        how: how they are read where not as the definition says.
    """

    source: str
    files: tuple[str, ...] = ()
    pattern: str | None = None
    force: bool = False
    modified_after: datetime | None = None
    modified_before: datetime | None = None
    how: CopyOptions = field(default_factory=CopyOptions)

    def look(self, name: str, table: BronzeTable, at: tables.Lake) -> discovery.Discovery:
        """Finds the files that are to be entered into the ledger (a ``landing.discovery.Look``).

        Raises:
            LandingMissing: there is no such folder, or no such file in it.
            UserError: the files cannot be read in the way that the copy says.
        """
        effective = self.how.table(name, table)
        refused: dict[str, str] = {}
        chosen, how = self.chosen(name, effective, refused), self.how.settled(effective).facts
        nothing = chosen.slice(0, 0)
        if self.force:
            return replace(self._forced(name, chosen, at, how), refused=refused)
        ledger = tables.delta_table(at.ledger(name))
        read = pc.field("action") != discovery.SKIP
        known = [] if ledger is None else tables.dataset(ledger).to_table(["path"], filter=read)["path"]
        seen = pc.is_in(chosen["path"], value_set=pa.array(known, pa.string()))
        bad = sorted(file_status.failed(at, name, table.fingerprint))
        failed = pc.is_in(chosen["path"], value_set=pa.array(bad, pa.string()))
        new, again = chosen.filter(pc.invert(seen)), chosen.filter(failed)
        entered = pa.concat_tables([discovery.to(discovery.READ, new), discovery.to(discovery.REPLACE, again)])
        return discovery.Discovery(discovery.in_order(entered), nothing, nothing, how, refused=refused)

    def _forced(self, name: str, chosen: pa.Table, at: tables.Lake, how: Mapping[str, Any]) -> discovery.Discovery:
        """All files in one chunk, so that there is nothing between none and all of them, but for what a try entered.

        Of files that the ledger knows it cannot be seen whether they have been entered for this copy: it says so.
        """
        command = idempotent_commands.begun(at, name, self.name)
        new = discovery.in_order(
            discovery.to(discovery.READ, idempotent_commands.without_entered(chosen, command, at, name))
        )
        nothing = chosen.slice(0, 0)
        return discovery.Discovery(new, nothing, nothing, how, whole=True, command=command)

    @property
    def name(self) -> str:
        """What tells this copy from another one; the same for the same words."""
        said = [[key, value] for key, value in vars(self).items() if key != "how"]
        return idempotent_commands.name_of({"copy": said, "how": replace(self.how, fields=None).facts})

    def unfinished(self, name: str, at: tables.Lake) -> bool:
        """Whether it has work though no file is new: some wait to be read, or a try of it, forced, did not end."""
        return idempotent_commands.waits(at, name) or (
            self.force and bool(idempotent_commands.begun(at, name, self.name).chunks)
        )

    def arguments(self, table: str, validate: int | None) -> list[str]:
        """The copy as arguments of ``spark_jobs/copy_into.py``."""
        # With =, so that a name that begins with - is not taken for an option.
        arguments = [f"--table={table}", f"--source={self.source}", *(["--force"] if self.force else [])]
        arguments += [f"--files={name}" for name in self.files]
        if self.pattern is not None:
            arguments.append(f"--pattern={self.pattern}")
        arguments += [f"--modified-after={self.modified_after.isoformat()}"] if self.modified_after else []
        arguments += [f"--modified-before={self.modified_before.isoformat()}"] if self.modified_before else []
        arguments += [f"--how={json.dumps(self.how.facts)}"] if self.how.facts else []
        return arguments if validate is None else [*arguments, f"--validate={validate}"]

    def chosen(self, name: str, table: BronzeTable, refused: dict[str, str] | None = None) -> pa.Table:
        """All files that the copy speaks of, known or not (schema ``storage.filesystems.FILES``).

        Args:
            name: the bronze table.
            table: its definition.
            refused: gets what is passed over, and why.

        Raises:
            LandingMissing: there is no such folder, or no such file in it.
            SourceError: a file is named that Spark does not read.
        """
        folder, only = folders.folder_of(self.source)
        wanted = only or self.files
        admits = (lambda own: own in wanted) if wanted else naming.admitting(table.pathGlobFilter)
        every = discovery.below(name, folder, admits=admits, left=refused)
        names = folders.relative(every, folder)
        missing = sorted(set(wanted) - set(names.to_pylist()))
        if missing:
            raise LandingMissing(
                f"there is no {missing[0]} in {folder}",
                where=Where(table=name, file=folder),
                cause=f"{files(len(missing))} of those named are not there" if len(missing) > 1 else "",
            )
        hidden = sorted(name for name in wanted if HIDDEN.search(name))
        if hidden:
            raise SourceError(
                f"{hidden[0]} cannot be copied under this name",
                where=Where(table=name, file=f"{folder}/{hidden[0]}"),
                cause="Spark takes files for empty whose names begin with . or _ or end in ._COPYING_",
                hint="give it another name",
            )
        # Who names a file wants it, also one that looks temporary.
        keep = (
            pc.is_in(names, value_set=pa.array(wanted, pa.string()))
            if wanted
            else pc.and_(naming.finished(names), naming.matching(names, table.pathGlobFilter))
        )
        if self.pattern is not None:
            matches = [fnmatch.fnmatchcase(own, self.pattern) for own in names.to_pylist()]
            keep = pc.and_(keep, pa.chunked_array([matches], pa.bool_()))
        every = every.filter(keep)
        if self.modified_after:
            every = every.filter(pc.field("modification_time") > self.modified_after)
        return every.filter(pc.field("modification_time") < self.modified_before) if self.modified_before else every


def parser() -> argparse.ArgumentParser:
    """The command line of ``spark_jobs/copy_into.py``."""
    made = layer_job.parser("copy_into")
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
    """The whole of ``spark_jobs/copy_into.py``; returns the exit code."""
    return layer_job.guarded(lambda: _copy(parser().parse_args(argv)))


def _copy(arguments: argparse.Namespace) -> RunReport:
    pipeline, at, facts = layer_job.subject(arguments)
    name = arguments.table
    table = bronze_table(pipeline, name)
    copy = Copy(
        arguments.source, tuple(arguments.files), arguments.pattern, arguments.force,
        arguments.modified_after, arguments.modified_before, CopyOptions.of(arguments.how),
    )  # fmt: skip
    if arguments.validate is not None:
        return _validate(copy, pipeline, name, table, at, arguments.validate)
    with pipeline_lock(at, str(facts.get("run_id") or f"copy into {name}")):
        done = run(copy, pipeline, name, at, facts)
    return replace(done, notes=[json.dumps(result(done.tables[0]))])


def run(
    copy: Copy,
    pipeline: Pipeline,
    name: str,
    at: tables.Lake,
    facts: Mapping[str, Any],
    spark: SparkSession | None = None,
) -> RunReport:
    """Copies the files; under the pipeline's lock.

    Args:
        copy: which files, and how.
        pipeline: the definition.
        name: the bronze table.
        at: the lake.
        facts: who runs this.
        spark: a session to use instead of one of its own.

    Raises:
        UserError: the files cannot be read in the way that the copy says; nothing was entered.
        LandingMissing: there is no such folder, or no such file in it.
    """
    table = bronze_table(pipeline, name)
    entered = copy.look(name, table, at).new["path"].to_pylist()
    if entered and copy.how.facts:
        # What is in the ledger stays there: a mistake must be found before.
        from sluicegate.bronze import preview
        from sluicegate.spark import session

        spark = spark or session.open_session("copy_into", at, private=bool(pipeline.pii))
        effective, target = copy.how.table(name, table), at.table("bronze", name)
        copy = replace(
            copy, how=preview.looked_at(spark, name, effective, target, entered, copy.how, private=bool(pipeline.pii))
        )
    if copy.force and (tries := idempotent_commands.begun(at, name, copy.name).chunks):
        say(
            f"{name}: this copy was begun before and did not end; what it entered then (chunk "
            f"{', '.join(map(str, tries))}) is not read a second time. To copy the files once more, repeat it."
        )
    done = layer_job.Job(pipeline, at, "bronze", facts, spark, only=name, look=copy.look).run()
    if copy.force:
        idempotent_commands.ended(at, name, copy.name)
    return done


def names(text: str | None) -> tuple[str, ...]:
    """Names of columns as ``a,b``."""
    return tuple(name.strip() for name in text.split(",")) if text else ()


def options(texts: Sequence[str]) -> dict[str, str]:
    """Options of Spark's reader, each as ``name=value``.

    Raises:
        UserError: one is not, or stands twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UserError(f"{text} is not an option", hint="write it as name=value, header=true for instance")
        if name.lower() in {known.lower() for known in found}:
            raise UserError(f"the option {name} stands twice")
        found[name] = value
    return found


def moment(text: str) -> datetime:
    """A time as ``2024-05-01`` or ``2024-05-01T12:00:00``, in UTC where it has no zone of its own.

    Raises:
        UserError: it is none.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{text} is not a time", hint="write it as 2024-05-01 or 2024-05-01T12:00:00") from None
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def bronze_table(pipeline: Pipeline, name: str) -> BronzeTable:
    """A table of the pipeline that files can be copied into.

    Raises:
        PipelineMissing: it has no such bronze table.
    """
    if name not in pipeline.bronze:
        known = ", ".join(pipeline.bronze) or "none"
        raise PipelineMissing(f"{pipeline.name} has no bronze table {name}", hint=f"its bronze tables are {known}")
    return pipeline.bronze[name]


def result(done: TableReport) -> dict[str, int]:
    """What COPY INTO returns on Databricks, by the names in ``RESULT``."""
    return dict(zip(RESULT, (done.read, done.read, len(done.failed)), strict=True))


def masked(row: Mapping[str, Any], personal: frozenset[str]) -> dict[str, Any]:
    """A record to show: columns that have the name of a personal one hidden, and such as may hold the whole record."""
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


def _validate(copy: Copy, pipeline: Pipeline, name: str, table: BronzeTable, at: tables.Lake, shown: int) -> RunReport:
    """Reads the files as a copy would, and writes nothing."""
    say(f"{pipeline.name}.{name}: nothing is written")
    found = copy.look(name, table, at)
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
