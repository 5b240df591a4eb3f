"""A team moves from Auto Loader: the old table stays as it is, and only what it has not read is read here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet

import sluicegate as sg
from sluicegate.errors import UserError
from sluicegate.landing import intake
from sluicegate.landing.chosen.reread import Reload
from sluicegate.monitor import plan, status
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINITION = """
name: heart_rate
bronze:
  history: {{path: '{old}', format: delta}}
  landed: {{path: '${{landing}}/orders', format: json, schemaHints: id BIGINT{options}}}
silver:
  orders:
    sql: |
      SELECT id, amount, file_path FROM STREAM(history)
      UNION ALL
      SELECT id, CAST(amount AS DOUBLE) AS amount, source_file AS file_path FROM STREAM(landed)
"""


class Team:
    """Three files that Auto Loader has read into a Delta table, one that landed after its last run, and one more."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.old = str(workspace.folder / "old")
        self.define()
        for number in range(5):
            self.land(f"{number} of may.json", number, age=500 - 100 * number)
        read = [f"{number} of may.json" for number in range(3)]
        rows = {
            "id": pa.array([0, 1, 2], pa.int64()),
            "amount": [0.5, 1.5, 2.5],
            # as Spark's _metadata.file_path has it, of the bucket that is mounted there
            "file_path": [f"dbfs:/mnt/raw/orders/{name.replace(' ', '%20')}" for name in read],
        }
        write_deltalake(self.old, pa.table(rows))
        self.listed = str(workspace.folder / "read.parquet")
        paths = DeltaTable(self.old).to_pyarrow_table(columns=["file_path"])["file_path"].unique()
        parquet.write_table(pa.table({"file_path": paths}), self.listed)

    def define(self, options: str = "") -> None:
        self.workspace.define(DEFINITION.format(old=self.old, options=options))

    def land(self, name: str, number: int, age: float) -> Path:
        return self.workspace.land(f"orders/{name}", json.dumps({"id": number, "amount": number + 0.5}), age=age)

    def skip(self) -> int:
        here = str(self.workspace.folder / "landing")
        return sg.skip(
            self.workspace.definition, "landed", self.listed, from_prefix=["dbfs:/mnt/raw"], to_prefix=[here]
        )

    def ids(self) -> list[int]:
        return sorted(number for (number,) in self.workspace.rows("orders", "id"))

    def states(self) -> dict[str, str]:
        entries = sg.files(self.workspace.definition, "landed").to_pylist()
        return {Path(entry["path"]).name: entry["state"] for entry in entries}

    def verified(self) -> bool:
        return status.verify(self.workspace.definition, self.workspace.settings) == []


@pytest.fixture
def team(workspace: Workspace) -> Team:
    return Team(workspace)


def test_nothing_is_lost_or_doubled_between_the_old_pipeline_and_the_new_one(spark: SparkSession, team: Team) -> None:
    assert team.skip() == 3
    reports = team.workspace.run(spark)
    assert (reports["history"].written, reports["landed"].written, reports["orders"].written) == (3, 2, 5)
    assert team.ids() == [0, 1, 2, 3, 4]
    assert team.states() == {
        "0 of may.json": "skipped", "1 of may.json": "skipped", "2 of may.json": "skipped",
        "3 of may.json": "ingested", "4 of may.json": "ingested",
    }  # fmt: skip
    sentence = plan.pending(team.workspace.definition, team.workspace.settings).sentence()
    assert sentence.startswith("nothing new")
    assert "3 files are skipped" in sentence
    findings = sg.verify(team.workspace.definition, spark=False)
    assert [finding for finding in findings if finding.kind in ("wrong", "behind")] == []
    assert [finding.table for finding in findings if "skipped" in finding.what] == ["landed"]
    assert team.skip() == 0
    assert team.workspace.run(spark)["landed"].state == "idle"


def test_files_that_land_later_are_read_and_listed_ones_that_are_overwritten_are_new(
    spark: SparkSession, team: Team
) -> None:
    team.skip()
    team.workspace.run(spark)
    team.land("0 of may.json", 100, age=50)
    team.land("5 of may.json", 5, age=50)
    team.workspace.run(spark)
    assert team.ids() == [0, 1, 2, 3, 4, 5]
    assert team.states()["0 of may.json"] == "changed"
    team.define(", allowOverwrites: true")
    team.workspace.run(spark)
    assert team.ids() == [0, 1, 2, 3, 4, 5, 100]
    assert team.verified()


def test_one_more_is_skipped_once_the_table_has_rows_and_read_after_all(spark: SparkSession, team: Team) -> None:
    team.skip()
    team.workspace.run(spark)
    late = team.land("late.json", 7, age=40)
    listed = team.workspace.folder / "late.txt"
    listed.write_text(f"{late}\n")
    assert sg.skip(team.workspace.definition, "landed", listed) == 1
    assert team.workspace.run(spark)["landed"].written == 0
    assert team.verified()
    assert sg.skip(team.workspace.definition, "landed", listed) == 0
    listed.write_text(f"{late}\n{team.workspace.folder}/landing/orders/4 of may.json\n")
    with pytest.raises(UserError, match="read 1 file"):
        sg.skip(team.workspace.definition, "landed", listed)
    table = team.workspace.definition.bronze["landed"]
    intake.enter("landed", table, team.workspace.lake, Reload(files=("late.json",)).discover)
    team.workspace.run(spark)
    assert team.ids() == [0, 1, 2, 3, 4, 7]
    assert team.verified()
    assert "3 files are skipped" in plan.pending(team.workspace.definition, team.workspace.settings).sentence()
