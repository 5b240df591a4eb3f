"""Landing folders, ledgers and archives of a size that only years bring; records and files larger than memory."""

from __future__ import annotations

import gzip
import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sluicegate.jobs.layer_job import Job
from sluicegate.lake import tables
from sluicegate.landing import discovery, intake
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.chosen import reread
from sluicegate.landing.file_states import LedgerAction
from sluicegate.landing.moves import archive, clean_source
from sluicegate.storage import listings
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.scale]

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def define(workspace: Workspace, more: str = "") -> None:
    of_files = f"path: '${{landing}}/things', format: json, schemaHints: id BIGINT{more}"
    workspace.define(f"name: heart_rate\nbronze:\n  things: {{{of_files}}}\n")
    (workspace.folder / "landing" / "things").mkdir(parents=True)


def entered(workspace: Workspace, files: int, chunks: int) -> pa.Table:
    """Files that the ledger has although they are long gone, in as many chunks."""
    ledger = landing_ledger._create(
        workspace.lake.ledger("things"),
        landing_ledger.stamp_rows(landing_ledger.add_action(LedgerAction.SKIP, listings.FILES.empty_table()), 0),
    )
    folder, each = workspace.folder / "landing" / "things", files // chunks
    time, found = pa.scalar(LONG_AGO, listings.FILES.field("modification_time").type), []
    for chunk in range(chunks):
        names = [f"{folder}/2026/{chunk * each + number:08}.json" for number in range(each)]
        columns = [names, pa.repeat(pa.scalar(100, pa.int64()), each), pa.repeat(time, each)]
        found.append(pa.table(columns, schema=listings.FILES))
        landing_ledger._append(ledger, landing_ledger.add_action("read", found[-1]), {})
    return pa.concat_tables(found)


def only_the_new_one_is_found(workspace: Workspace) -> None:
    workspace.land("things/new.json", '{"id": 1}')
    table = workspace.definition.bronze["things"]
    found = intake.enter("things", table, workspace.lake)
    assert [path.rpartition("/")[2] for path in found.new["path"].to_pylist()] == ["new.json"]
    assert discovery.discover("things", table, workspace.lake).new.num_rows == 0


def test_100_000_entries_of_the_ledger(workspace: Workspace) -> None:
    define(workspace)
    entered(workspace, 100_000, 1_000)
    only_the_new_one_is_found(workspace)
    ledger = tables.delta_table(workspace.lake.ledger("things"))
    assert ledger is not None
    assert tables.rows(ledger) == 100_001


def test_a_million_archived_files(workspace: Workspace) -> None:
    define(workspace, f", cleanSource: MOVE, cleanSourceMoveDestination: '{workspace.folder}/archived', "
                      "cleanSourceRetentionDuration: '1 hours'")  # fmt: skip
    files = entered(workspace, 1_000_000, 40)
    ledger = tables.delta_table(workspace.lake.ledger("things"))
    assert ledger is not None
    facts = {"mode": "MOVE", "place": files["path"], "archived": pa.scalar(LONG_AGO, archive.TIME),
             "ledger_id": tables.table_id(ledger)}  # fmt: skip
    for name, value in facts.items():
        column = value if isinstance(value, pa.ChunkedArray) else pa.repeat(value, files.num_rows)
        files = files.append_column(name, column)
    tables.write(workspace.lake.archive("things"), files.cast(archive.ARCHIVE), mode="append")
    only_the_new_one_is_found(workspace)
    table, later = workspace.definition.bronze["things"], datetime.now(UTC) + timedelta(days=1)
    assert clean_source.files_due("things", table, workspace.lake, later).num_rows == 0


def test_a_reset_of_20_000_files(spark: SparkSession, workspace: Workspace) -> None:
    define(workspace, ", maxFilesPerTrigger: 20000")
    for number in range(20_000):
        workspace.land(f"things/{number:05}.json", f'{{"id": {number}}}\n')
    assert workspace.run(spark, "bronze")["things"].read == 20_000
    anew = reread.Reset()
    intake.enter("things", workspace.definition.bronze["things"], workspace.lake, anew.discover)
    done = Job(workspace.definition, workspace.lake, "bronze", {"run_id": "test"}, spark).run()
    assert done.tables[0].read == 20_000
    assert sorted(workspace.rows("things", "id")) == [(number,) for number in range(20_000)]


@pytest.mark.parametrize("options", ["", ", options: {multiLine: true}"])
def test_records_of_50_megabytes(spark: SparkSession, workspace: Workspace, options: str) -> None:
    define(workspace, options)
    for number in range(3):
        workspace.land(f"things/{number}.json", json.dumps({"id": number, "text": str(number) * 50_000_000}) + "\n")
    assert workspace.run(spark, "bronze")["things"].corrupt == 0
    assert sorted((key, len(text)) for key, text in workspace.rows("things", "id", "text")) == [
        (number, 50_000_000) for number in range(3)
    ]


@pytest.mark.parametrize("options", ["", ", options: {multiLine: true}"])
def test_a_gzip_bomb_stops_no_other_file(spark: SparkSession, workspace: Workspace, options: str) -> None:
    define(workspace, options)
    bomb = workspace.land("things/bomb.json.gz", b"")
    with gzip.open(bomb, "wb", compresslevel=1) as file:  # one record of 4 GB
        file.write(b'{"id": "')
        for _ in range(256):
            file.write(b"0" * (16 << 20))
        file.write(b'"}\n')
    os.utime(bomb, (LONG_AGO.timestamp(),) * 2)
    workspace.land("things/good.json", '{"id": 1}\n')
    workspace.run(spark, "bronze")
    assert (1,) in workspace.rows("things", "id")
    assert workspace.run(spark, "bronze")["things"].state == "idle"
