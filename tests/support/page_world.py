"""A lake with some runs in it, as the Lakehouse page shows it: real files, ledgers and tables, without Spark.

Bronze, silver and gold are written by delta-rs with the offsets and facts that jobs commit, at chosen times.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from typer.testing import CliRunner, Result

from sluicegate.cli.app import app
from sluicegate.definition import Pipeline
from sluicegate.flow import flows
from sluicegate.flow.progress import progress
from sluicegate.lake import layout, log
from sluicegate.landing import file_status, intake
from sluicegate.monitor import event_log
from tests.conftest import ROOT, Workspace

BEGAN = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)
STEP = timedelta(minutes=15)


@dataclass
class PageWorld:
    """A workspace with the pipeline heart_rate.

    Attributes:
        workspace: its folders.
        began: when its first run began.
        runs: runs so far.
    """

    workspace: Workspace
    began: datetime = BEGAN
    runs: int = 0
    _definition: Any = None

    @classmethod
    def at(cls, folder: Path, runs: int = 3, began: datetime = BEGAN) -> PageWorld:
        """A workspace with some runs."""
        made = Workspace(folder)
        shutil.copytree(ROOT / "pipelines" / "heart_rate", folder / "pipelines" / "heart_rate")
        for name in ("recordings", "patients"):
            (folder / "landing" / name).mkdir(parents=True)
        age = (datetime.now(UTC) - began).total_seconds() + 600
        made.land("patients/patients.csv", "mrn,name\n1,Ada Byron\n2,Bo Li\n", age=age)
        world = cls(made, began)
        for _ in range(runs):
            world.run()
        return world

    @property
    def definition(self) -> Pipeline:
        """Its definition, which is read once."""
        self._definition = self._definition or self.workspace.definition
        return self._definition  # type: ignore[no-any-return]

    def run(
        self, records: int = 40, quarantined: int = 3, duplicates: int = 2, unreadable: int = 0, **facts: Any
    ) -> str:
        """A run of all layers over a new file, as Airflow's scheduler would start it; gives its id.

        Beside the file there may be some that are no gzip, though their names say so.
        """
        number, when = self.runs, self.began + self.runs * STEP
        self.runs += 1
        run_id = f"scheduled__{when.isoformat()}"
        said = {"dag_id": "heart_rate", "run_id": run_id, "try": 1, **facts}
        chance = random.Random(number)
        beats = [
            {
                "device_id": 1 + n % 5,
                "mrn": 1 + n % 2,
                "time": when.timestamp() + n,
                "heartrate": chance.uniform(55, 120),
            }
            for n in range(records)
        ]
        for beat in beats[:quarantined]:
            beat["heartrate"] = -1.0
        age = (datetime.now(UTC) - when).total_seconds() + 45
        self.workspace.land(f"recordings/{number:04d}.json", beats, age=age)
        for file in range(unreadable):
            self.workspace.land(f"recordings/{number:04d}-{file}.json.gz", "no gzip", age=age)
        self._bronze("recordings_bronze", beats, said, when + timedelta(seconds=20))
        if number == 0:
            people = [{"mrn": 1, "name": "Ada Byron"}, {"mrn": 2, "name": "Bo Li"}]
            self._bronze("patients_bronze", people, said, when + timedelta(seconds=18))
            counts = {"read": 2, "written": 2, "quarantined": 0, "dropped": 0, "duplicates": 0, "expectations": {}}
            self._commit("patients", people, said | counts, when + timedelta(seconds=30))
        self._silver(beats, quarantined, duplicates, said, when + timedelta(seconds=40))
        self._gold("daily_patient_avg", [{"mrn": n, "date": when.date(), "avg_hr": 70.0 + n} for n in (1, 2)], said,
                   when + timedelta(seconds=50))  # fmt: skip
        self._gold(
            "device_counts", [{"device_id": n, "n": records} for n in range(5)], said, when + timedelta(seconds=52)
        )
        event_log.copy_events(self.definition, self.workspace.lake)
        return run_id

    def command(self, *words: str) -> Result:
        """What a command gives that has to know the lake, the landing folder and the definitions."""
        places = self.workspace.settings.arguments
        options = [part for name in ("lake", "landing", "pipelines") for part in (f"--{name}", places[name])]
        return CliRunner().invoke(app, [*words, *options])

    def wide(self, columns: int = 1_000) -> None:
        """Adds a pipeline ``wide``: a bronze table with many columns, and one whose folder is no Delta table."""
        settings = self.workspace.settings
        folder = settings.pipelines / "wide"
        folder.mkdir()
        tables = [f'  {name}: {{path: "${{landing}}/{name}", format: json}}\n' for name in ("sheet", "torn")]
        (folder / "pipeline.yaml").write_text("name: wide\nbronze:\n" + "".join(tables))
        at = layout.Lake(str(settings.lake), "wide")
        values = {f"column_{n}": pa.array([n, None, -n]) for n in range(columns)}
        engine = {"source_file": pa.array(["a", "a", "b"]), "_chunk": pa.array([0, 0, 1]), "_pos": pa.array([0, 1, 0])}
        write_deltalake(at.table("bronze", "sheet"), pa.table({**values, **engine}))
        torn = Path(at.table("bronze", "torn")) / "_delta_log"
        torn.mkdir(parents=True)
        (torn / f"{0:020}.json").write_text("{")
        for name in ("sheet", "torn"):
            (self.workspace.folder / "landing" / name).mkdir()

    def _bronze(self, table: str, rows: list[dict[str, Any]], said: Mapping[str, Any], when: datetime) -> None:
        at, definition = self.workspace.lake, self.definition
        intake.enter(table, definition.bronze[table], at)
        ledger = DeltaTable(at.ledger(table))
        chunk = ledger.version()
        entered = ledger.to_pyarrow_table(filters=[("chunk", "=", chunk)]).to_pylist()
        failed = {one["path"]: ["not in GZIP format", False] for one in entered if one["path"].endswith(".gz")}
        path = next(one["path"] for one in entered if one["path"] not in failed)
        common = {"_rescued_data": None, "_corrupt_record": None, "source_file": path, "_chunk": chunk}
        records = [{**row, **common, "_pos": n} for n, row in enumerate(rows)]
        facts = {"chunk": chunk, "files": len(entered), "bytes": sum(one["size"] for one in entered), "failed": failed,
                 "manifest": {}, "definition": self.definition.bronze[table].fingerprint}  # fmt: skip
        self._commit(table, records, {**said, **facts}, when)
        file_status.copy(at, table)

    def _silver(
        self, beats: list[dict[str, Any]], quarantined: int, duplicates: int, said: Mapping[str, Any], when: datetime
    ) -> None:
        at = self.workspace.lake
        names = {1: "Ada Byron", 2: "Bo Li"}
        chunk = self.runs
        rows = [
            {"device_id": b["device_id"], "mrn": b["mrn"], "name": names[b["mrn"]],
             "time": datetime.fromtimestamp(b["time"], UTC), "heartrate": b["heartrate"], "_chunk": chunk, "_pos": n}
            for n, b in enumerate(beats)
        ]  # fmt: skip
        broken, good = rows[:quarantined], rows[quarantined : len(rows) - duplicates]
        if broken:
            beside = [
                {**row, "_failed_expectations": ["valid_heartrate"], "_record": json.dumps(beats[n]),
                 "source_file": f"file:/landing/recordings/{self.runs:04d}.json", "_quarantined_at": when}
                for n, row in enumerate(broken)
            ]  # fmt: skip
            write_deltalake(at.quarantine("recordings_enriched"), pa.Table.from_pylist(beside), mode="append")
        counts = {"read": len(rows), "written": len(good), "quarantined": len(broken), "dropped": 0,
                  "duplicates": duplicates, "definition": "s" * 64, "mixed": False}  # fmt: skip
        rules = {"valid_heartrate": {"passed": len(rows) - len(broken), "failed": len(broken)},
                 "known_patient": {"passed": len(rows), "failed": 0}}  # fmt: skip
        self._commit("recordings_enriched", good, {**said, **counts, "expectations": rules}, when)

    def _gold(self, table: str, rows: list[dict[str, Any]], said: Mapping[str, Any], when: datetime) -> None:
        facts = {"read": 35, "strategy": "partial", "because": "rows that come add to its groups",
                 "cost": {"technique": "partial", "estimated": 1.0, "estimates": {"partial": 1.0}, "rows": {},
                          "began": int(when.timestamp() * 1000) - 1400}}  # fmt: skip
        self._commit(table, rows, {**said, **facts}, when, mode="overwrite")

    def _commit(
        self, table: str, rows: list[dict[str, Any]], said: Mapping[str, Any], when: datetime, mode: Any = "append"
    ) -> None:
        """Commits rows with the offset of a run that takes in all there is, and its facts."""
        definition, at = self.definition, self.workspace.lake
        layer = definition.table(table)[0]
        flow = flows.flows(definition, at, layer)[table]
        now = progress(flow)
        said = {**said, **({"stored": flow.stored_rows.facts()} if flow.stored_rows is not None else {})}
        facts = {"layer": layer, "table": table, "mode": "incremental", "since": now.since, "until": now.until,
                 "inputs": dict(now.stamps), "fingerprint": flow.fingerprint, "seen": now.seen, "why": "",
                 "pipeline": "heart_rate", **said}  # fmt: skip
        properties = CommitProperties(
            custom_metadata={"userMetadata": json.dumps({log.METADATA: facts})},
            app_transactions=[Transaction(now.app_id, now.until)] if now.app_id else [],
        )
        schema = _schema(rows)
        write_deltalake(
            flow.target, pa.Table.from_pylist(rows, schema), mode=mode, commit_properties=properties,
            configuration={"delta.enableChangeDataFeed": "true"},
        )  # fmt: skip
        dated(flow.target, when)


def _schema(rows: list[dict[str, Any]]) -> pa.Schema:
    found = pa.Table.from_pylist(rows).schema
    return pa.schema([field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in found])


def dated(uri: str, when: datetime) -> None:
    """Gives the newest commit of a table another time."""
    version = DeltaTable(uri).version()
    file = Path(layout.local_path(uri)) / "_delta_log" / f"{version:020d}.json"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"]["timestamp"] = int(when.timestamp() * 1000)
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
