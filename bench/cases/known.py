"""Bronze by how many files are known already: new files in a landing folder with many that were read before."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, Transaction, write_deltalake

from bench import case, measure
from bench.case import Absence, Aim, Side, Sized
from bench.sides import heart_rate
from bench.worker import OURS, PLAIN, PYTHON
from sluicegate.definition import load
from sluicegate.flow import flows
from sluicegate.flow.progress import progress
from sluicegate.jobs.layer_job import Job
from sluicegate.lake import layout, log, tables
from sluicegate.landing import file_status, intake
from sluicegate.monitor import plan
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFINITION = """
name: discovery
bronze:
  things: {path: "${landing}/things", format: json, schemaHints: id BIGINT, settleSeconds: 0}
"""
# Our sides: a whole bronze run, and what is of it before Spark; the latter also with the known files archived.
RUN, BEFORE, ARCHIVED, IDLE = (
    "ours",
    "ours, before Spark",
    "ours, before Spark, known files archived",
    "ours, nothing new",
)
STREAM = "plain Spark, file stream"
# Folders, each with a landing folder and tables; three of our sides take turns in one of them.
SHARED = "ours"
LAKES = (SHARED, ARCHIVED, STREAM, case.DLT)
BEHIND = 25  # ledger batches after which the outcome is copied, as jobs do each time
NEW = {case.SMALL: 5, case.FULL: 10}


class LedgerSize(Sized):
    """Whole bronze runs, and the part of them that grows with the ledger: all before Spark."""

    name = "known-files"
    rotates = False  # nothing is new only after something has been read
    sentence = (
        "10 new files (small: 5) of one record, in a landing folder with more and more files (empty ones, a thousand to"
        " a folder) that bronze has read before. Ours as a whole run in a warm session, the part of it before Spark"
        " starts, and a run with nothing new; held against Spark's file stream with its checkpoint."
    )
    unit = "files"
    baseline = STREAM
    sizes: ClassVar[dict[str, tuple[int, ...]]] = {case.SMALL: (10, 500), case.FULL: (10, 1_000, 100_000)}

    def open(self) -> Sequence[Side | Absence]:
        self._next: dict[Path, int] = {}
        no_memory = "it has no memory of files: each run reads all of them"
        no_dlt = heart_rate.missing_module_reason("dlt", "`make bench` brings it")
        sides: list[Side | Absence] = [
            self._sluicegate_side(RUN, OURS, one_run, self._land(SHARED)),
            self._sluicegate_side(BEFORE, PYTHON, prepare_without_spark, self._land(SHARED)),
            self._sluicegate_side(ARCHIVED, PYTHON, prepare_without_spark, self._archive_known),
            self._sluicegate_side(IDLE, PYTHON, idle, lambda _point, _number: None),
            Side(STREAM, self._stream, self._land(STREAM)),
            Absence(case.DLT, no_dlt) if no_dlt else Side(case.DLT, self._dlt, self._land(case.DLT)),
            Absence(case.BATCH, no_memory),
            Absence(case.DUCKDB, no_memory),
            Absence(case.DECLARATIVE_TUNED, "its streaming tables read files by the file stream that is measured here"),
        ]
        for point in self.points:
            for name in LAKES:
                self._prepare_folder(point, name)
            sides = self.try_sides(sides, point)
        return sides

    def _prepare_folder(self, point: str, name: str) -> None:
        """Makes the folder of a side; ours has read its files, and the others read them when they are tried."""
        folder, many = self.scene.side_folder(point, name), self.size(point)
        self._next[folder] = many
        if name in (SHARED, ARCHIVED):
            prepare(folder, many)
        else:
            land(folder, 0, many)

    def _land(self, name: str) -> Callable[[str, int], None]:
        def land_new(point: str, _number: int) -> None:
            folder, new = self.scene.side_folder(point, name), NEW[self.scene.scale]
            land(folder, self._next[folder], new, records=1)
            self._next[folder] += new

        return land_new

    def _archive_known(self, point: str, number: int) -> None:
        """Takes away the files that are known, and lands new ones."""
        shutil.rmtree(self.scene.side_folder(point, ARCHIVED) / "landing")
        self._land(ARCHIVED)(point, number)

    def _sluicegate_side(
        self, name: str, kind: str, function: Callable[..., Any], ready: Callable[[str, int], None]
    ) -> Side:
        def run(point: str, _number: int) -> tuple[measure.Cost, int | None]:
            folder = self.scene.side_folder(point, ARCHIVED if name == ARCHIVED else SHARED)
            bronze = Path(layout.Lake(settings_of(folder).lake, "discovery").table("bronze", "things"))
            were = heart_rate.rows(bronze)
            cost, new = self.scene.worker(kind).call(function, folder=str(folder))
            if function is prepare_without_spark:
                take_landed(folder)  # what was found, for the round after this one
            wanted = 0 if function is idle else NEW[self.scene.scale]
            if new != wanted:
                raise measure.CommandFailed(f"{new} files were found, and {wanted} had landed")
            return cost, None if function is idle else heart_rate.rows(bronze) - were

        return Side(name, run, ready)

    def _stream(self, point: str, _number: int) -> tuple[measure.Cost, int | None]:
        folder = self.scene.side_folder(point, STREAM)
        return self._new_rows(
            folder / "plain", lambda: self.scene.worker(PLAIN).call(file_stream, folder=str(folder))[0]
        )

    def _dlt(self, point: str, _number: int) -> tuple[measure.Cost, int | None]:
        folder = self.scene.side_folder(point, case.DLT)
        command = [sys.executable, str(heart_rate.SIDES / "dlt_lines.py"), str(folder / "landing"), str(folder)]
        return self._new_rows(folder / "dlt" / "bronze", lambda: measure.run(command, self.scene.log))

    def _new_rows(self, table: Path, work: Callable[[], measure.Cost]) -> tuple[measure.Cost, int]:
        were = heart_rate.rows(table) if table.exists() else 0
        return work(), heart_rate.rows(table) - were

    def aims(self) -> list[Aim]:
        return [*self.growth(RUN, 1.3), *self.growth(BEFORE, 1.3)]


def settings_of(folder: Path) -> Settings:
    """Where our things are."""
    return Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")


def land(folder: Path, first: int, many: int, records: int = 0) -> None:
    """Lands files of so many records, a thousand to a folder."""
    for number in range(first, first + many):
        below = folder / "landing" / "things" / f"date=2024-{number // 1000:06d}"
        below.mkdir(parents=True, exist_ok=True)
        (below / f"part-{number:09d}-of-a-longer-name.json").write_text("".join(f'{{"id": {number}}}\n' * records))


def prepare(folder: Path, known: int) -> None:
    """Makes a landing folder, a ledger and an outcome of so many files.

    Files really land and are entered into a real ledger. Bronze is committed as the job does it, with the facts that
    its outcome is made of, but by delta-rs.
    """
    (folder / "pipelines" / "discovery").mkdir(parents=True)
    (folder / "pipelines" / "discovery" / "pipeline.yaml").write_text(DEFINITION)
    land(folder, 0, known)
    take_landed(folder)


def take_landed(folder: Path) -> None:
    """Enters what has landed, and commits to bronze and its outcome what a job would."""
    pipeline = load("discovery", settings_of(folder))
    at, table = layout.Lake(settings_of(folder).lake, "discovery"), pipeline.bronze["things"]
    intake.enter("things", table, at)
    ledger = tables.delta_table(at.ledger("things"))
    if ledger is None:
        raise measure.CommandFailed("nothing has landed")
    app_id = f"sluicegate.bronze.things@{tables.table_id(ledger)}"
    offset = tables.txn_version(tables.delta_table(at.table("bronze", "things")), app_id)
    entries = tables.dataset(ledger).to_table(["path", "chunk"]).sort_by("chunk").combine_chunks()
    batches = entries["chunk"].combine_chunks()
    for batch in batches.filter(pc.greater(batches, -1 if offset is None else offset)).unique().to_pylist():
        first, count = pc.index(batches, batch).as_py(), pc.sum(pc.equal(batches, batch)).as_py()
        _commit(at, app_id, batch, entries["path"].slice(first, count), table.fingerprint)
        if batch % BEHIND == 0:
            file_status.copy(at, "things")
    file_status.copy(at, "things")


def _commit(at: layout.Lake, app_id: str, batch: int, paths: Any, fingerprint: str) -> None:
    facts = {"chunk": batch, "failed": {}, "definition": fingerprint}
    count = len(paths)
    rows = {
        "id": pa.array(range(count)), "_chunk": pa.repeat(batch, count), "_pos": pa.array(range(count)),
        "source_file": pa.array(["file://" + path for path in paths.to_pylist()]),
        "_corrupt_record": pa.nulls(count, pa.string()), "_rescued_data": pa.nulls(count, pa.string()),
    }  # fmt: skip
    properties = CommitProperties(
        custom_metadata={"userMetadata": json.dumps({log.METADATA: facts})},
        app_transactions=[Transaction(app_id, batch)],
    )
    write_deltalake(at.table("bronze", "things"), pa.table(rows), mode="append", commit_properties=properties)


def one_run(spark: SparkSession, folder: str) -> int:
    """A whole bronze run; gives the files that it found."""
    settings = settings_of(Path(folder))
    at = layout.Lake(settings.lake, "discovery")
    report = Job(load("discovery", settings), at, "bronze", {"run_id": "bench"}, spark).run()
    return sum(table.as_dict().get("files", 0) for table in report.tables)


def prepare_without_spark(folder: str) -> int:
    """What a bronze run does before Spark: outcome, discovery, ledger, offset; gives the files that it found."""
    settings = settings_of(Path(folder))
    pipeline, at = load("discovery", settings), layout.Lake(settings.lake, "discovery")
    flow = flows.flows(pipeline, at, "bronze")["things"]
    file_status.copy(at, "things")
    found = intake.enter("things", pipeline.bronze["things"], at)
    progress(flow)
    return int(found.new.num_rows)


def idle(folder: str) -> int:
    """What a run with nothing new does; gives 0 if it found nothing to do."""
    settings = settings_of(Path(folder))
    return 0 if plan.pending(load("discovery", settings), settings).nothing else -1


def file_stream(spark: SparkSession, folder: str) -> None:
    """Spark's own file stream, which remembers in its checkpoint what it has read."""
    reader = spark.readStream.schema("id BIGINT").option("recursiveFileLookup", "true")
    stream = (
        reader.json(f"{folder}/landing/things")
        .writeStream.format("delta")
        .option("checkpointLocation", f"{folder}/plain/_checkpoint")
    )
    stream.trigger(availableNow=True).start(f"{folder}/plain").awaitTermination()
