"""Makes the archives of lakes that former versions left, which tests read and continue.

An archive is made once, by the code of its time; today's code never makes its tables again:

    git clone . ../former && git -C ../former checkout a59db4a && make -C ../former setup
    .venv/bin/python -m scripts.former_lake ../former tests/spark/data/former_lake.tar.gz

former_lake.tar.gz is a lake as the commit before the move of the modules left it. It has a table of every kind: ledgers
with files that were ingested, replaced, failed, skipped and archived; bronze whose columns grew; silver with
quarantine, set-aside records, a lookup, both types of slowly changing dimensions and a de-identified copy; gold kept up
to date by aggregate state, by affected groups, along a join, whole, and as a streaming aggregation; the event log. Each
of three runs takes in a step of ``STEPS``.

Paths of landed files stand in the ledger and in bronze as they were when the lake was made. The test unpacks the
archive elsewhere, so to the pipeline its landing folder has been moved, which is a thing that it follows.

``scripts.former_values`` describes another lake, with values that its version stored otherwise than today's.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# No folder of anybody's: it stands in the tables for ever.
HOME = Path(tempfile.gettempdir()) / "sluicegate-former"

# When the first file landed: the start of 2025. Each file is a minute younger than the one before.
FIRST = 1735689600


@dataclass(frozen=True)
class FormerLake:
    """A lake that a former version is to make.

    Attributes:
        name: of its pipeline.
        definition: text of pipeline.yaml.
        queries: texts of the SQL files, by name.
        steps: for each run what lands before it, in the order of modification times; a file that comes again is
            another one.
    """

    name: str
    definition: str
    queries: Mapping[str, str]
    steps: Sequence[Mapping[str, bytes]]


DEFINITION = """\
name: former
description: Readings of trackers, the patients who wear them, and alarms.
bronze:
  readings_bronze:
    path: ${landing}/readings
    format: json
    schemaHints: device_id INT, mrn BIGINT, time DOUBLE, heartrate DOUBLE
    allowOverwrites: true
    maxFilesPerTrigger: 2
  patients_bronze: {path: "${landing}/patients", format: csv, options: {header: true}, schemaHints: mrn BIGINT}
  alarms_bronze:
    path: ${landing}/alarms
    format: csv
    options: {header: true}
    schemaHints: device_id INT, level INT
    includeExistingFiles: false
    cleanSource: MOVE
    cleanSourceRetentionDuration: 0 seconds
    cleanSourceMoveDestination: ${landing}_archive
silver:
  patients:
    from: patients_bronze
    apply_changes: {keys: [mrn], sequence_by: _file_modification_time, column_list: [mrn, name, ward]}
    pii: [name]
    deidentified: {name: mask}
  patients_history:
    from: patients_bronze
    apply_changes:
      keys: [mrn]
      sequence_by: _file_modification_time
      stored_as_scd_type: 2
      column_list: [mrn, name, ward]
  readings:
    sql: readings.sql
    keys: [device_id, time]
    event_time: time
    expectations:
      of_a_device: {expect_or_drop: device_id > 0}
      valid_heartrate: {expect_or_quarantine: heartrate > 0}
      known_patient: {expect_or_quarantine: name IS NOT NULL, retry: true}
gold:
  patient_days: {sql: patient_days.sql, refresh: incremental}
  ward_days: {sql: ward_days.sql, refresh: incremental}
  device_spread: {sql: device_spread.sql, refresh: incremental}
  peaks: {sql: peaks.sql}
  alarm_levels: {sql: "SELECT level, count(*) AS alarms FROM alarms_bronze GROUP BY level"}
  hours:
    sql: "SELECT window.start AS hour, count(*) AS readings FROM readings GROUP BY window(time, '1 hour')"
    mode: complete
"""

QUERIES = {
    "readings.sql": """\
SELECT r.device_id, r.mrn, p.name, CAST(r.time AS TIMESTAMP) AS time, r.heartrate
FROM STREAM(readings_bronze) AS r LEFT JOIN patients AS p USING (mrn)
""",
    "patient_days.sql": """\
SELECT mrn, date_trunc('DD', time) AS day, count(*) AS readings, avg(heartrate) AS average, max(heartrate) AS peak,
  stddev(heartrate) AS spread
FROM readings GROUP BY mrn, date_trunc('DD', time)
""",
    "ward_days.sql": """\
SELECT p.ward, date_trunc('DD', r.time) AS day, count(*) AS readings, avg(r.heartrate) AS average
FROM readings AS r JOIN patients AS p ON r.mrn = p.mrn
GROUP BY p.ward, date_trunc('DD', r.time)
""",
    "device_spread.sql": """\
SELECT device_id, count(DISTINCT mrn) AS patients, percentile(heartrate, 0.5) AS median
FROM readings GROUP BY device_id
""",
    "peaks.sql": """\
SELECT mrn, time, heartrate, rank() OVER (PARTITION BY mrn ORDER BY heartrate DESC, time) AS place FROM readings
""",
}


def reading(device: int, mrn: int, minute: int, heartrate: float | str, **more: Any) -> dict[str, Any]:
    """A record of a tracker, so many minutes after the start of 2025."""
    return {"device_id": device, "mrn": mrn, "time": FIRST + 60 * minute, "heartrate": heartrate} | more


def lines(*records: Mapping[str, Any]) -> bytes:
    """Records as JSON lines."""
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


# A record of a file that is cut off in the middle of its gzip.
TRUNCATED = gzip.compress(lines(*(reading(3, 1, n, 60.0 + n / 7) for n in range(40))), mtime=0)[:-30]

STEPS: Sequence[Mapping[str, bytes]] = (
    {
        "patients/first.csv": b"mrn,name,ward\n1,Ada,North\n2,Bo,South\n",
        "alarms/before.csv": b"device_id,level\n1,3\n",
        "readings/a.json": lines(*(reading(1, 1, n, 60.5 + n) for n in range(6)), reading(2, 2, 0, 0.0)),
        "readings/b.json": lines(*(reading(2, 2, 30 * n, 71.1 + n / 10) for n in range(5)), reading(0, 1, 9, 50.0)),
        "readings/broken.json.gz": TRUNCATED,
    },
    {
        "readings/a.json": lines(*(reading(1, 1, n, 61.5 + n) for n in range(5))),
        "alarms/first.csv": b"device_id,level\n1,1\n2,2\n1,2\n",
        "readings/c.json": lines(
            reading(1, 1, 0, 99.0, battery="full"),
            reading(3, 9, 2000, 80.0, battery="low"),
            reading(3, 1, 2001, "high"),
        ),
        "readings/d.json": lines(reading(2, 2, 1600, 75.0), reading(1, 2, 1601, 77.7)),
    },
    {
        "patients/second.csv": b"mrn,name,ward\n9,Cleo,North\n1,Ada,South\n",
        "readings/e.json": lines(reading(3, 9, 2002, 82.0), reading(2, 2, 2003, -1.0)),
    },
)


READINGS = FormerLake("former", DEFINITION, QUERIES, STEPS)


def main(argv: Sequence[str] | None = None, *, lake: FormerLake = READINGS) -> int:
    """Makes the archive of a lake; returns the exit code."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("former", type=Path, help="a clone with the former commit checked out, after `make setup`")
    parser.add_argument("archive", type=Path, help="the file to write")
    arguments = parser.parse_args(argv)
    shutil.rmtree(HOME, ignore_errors=True)
    write_definition(lake)
    for number, files in enumerate(lake.steps):
        for place, (name, content) in enumerate(files.items()):
            land(name, content, FIRST + 3600 * number + 60 * place)
        code = run(arguments.former.resolve(), lake.name)
        if code:
            print(f"run {number + 1} of the former version failed: see what it says above", file=sys.stderr)
            return code
    pack(arguments.archive)
    print(f"{arguments.archive}: {arguments.archive.stat().st_size:,} bytes")
    return 0


def write_definition(lake: FormerLake) -> None:
    """Writes the pipeline's folder."""
    folder = HOME / "pipelines" / lake.name
    folder.mkdir(parents=True)
    for name, text in {"pipeline.yaml": lake.definition, **lake.queries}.items():
        (folder / name).write_text(text)


def land(name: str, content: bytes, modified: int) -> None:
    """Writes a file as if it had been modified at that time, in seconds since 1970."""
    path = HOME / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (modified, modified))


def run(former: Path, name: str) -> int:
    """Runs a pipeline by the code of a clone; its exit code."""
    where = {f"SLUICEGATE_{folder.upper()}": str(HOME / folder) for folder in ("lake", "landing", "pipelines")}
    command = [str(former / ".venv" / "bin" / "python"), "-m", "sluicegate.cli", "run", name]
    environment = os.environ | where | {"SLUICEGATE_MASTER": "local[2]", "PYTHONPATH": str(former)}
    return subprocess.run(command, cwd=former, env=environment, check=False).returncode


def pack(archive: Path) -> None:
    """Packs the definition, the landed files with their times, and the lake; nobody's name is in it."""

    def strip_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        return None if entry.name.endswith(".lock") else entry  # it names the process that had it

    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT, compresslevel=9) as packed:
        for folder in ("pipelines", "landing", "landing_archive", "lake"):
            if (HOME / folder).exists():
                packed.add(HOME / folder, folder, filter=strip_owner)


if __name__ == "__main__":
    sys.exit(main())
