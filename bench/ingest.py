"""Bronze against plain Spark on the same JSON lines, in one session, in turn: ``python bench/ingest.py [--records N]``.

Plain Spark reads with a schema, a corrupt-record column and the file's name, and appends to a Delta table. Bronze
does its own work besides: it finds every field and its type, rescues, numbers the records, and looks for text behind a
record; without rescued data it does only the latter two. The figures to look at are the ratios within one round;
seconds alone depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from sluicegate.definition import load
from sluicegate.jobs.layer import Job
from sluicegate.lake import layout
from sluicegate.settings import Settings
from sluicegate.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 20
COLUMNS = "device_id INT, mrn BIGINT, time DOUBLE, heartrate DOUBLE, note STRING"
VARIANTS = {
    "rescued": f'schemaHints: "{COLUMNS}"',
    "unrescued": f'schema: "{COLUMNS}", rescuedDataColumn: none',
}
AIMS = {"rescued": 1.3, "unrescued": 1.1}
SCHEMA = f"{COLUMNS}, _corrupt_record STRING"


def prepare(folder: Path, records: int) -> None:
    """Lands the files and the definitions."""
    for name, fields in VARIANTS.items():
        (folder / "pipelines" / name).mkdir(parents=True)
        table = f"{{path: '${{landing}}/readings', format: json, {fields}}}"
        (folder / "pipelines" / name / "pipeline.yaml").write_text(f"name: {name}\nbronze:\n  readings: {table}\n")
    landing = folder / "landing" / "readings"
    landing.mkdir(parents=True)
    for number in range(FILES):
        file = landing / f"{number}.json"
        with file.open("w") as lines:
            for at in range(number, records, FILES):
                reading = {"device_id": at % 97, "mrn": 10_000_000 + at % 1009, "time": 1_577_836_800.5 + at}
                lines.write(json.dumps(reading | {"heartrate": 40 + at % 80 + 0.25, "note": f"reading {at}"}) + "\n")
        os.utime(file, (0, 0))  # settled long ago


def ours(spark: SparkSession, folder: Path, number: int, variant: str) -> tuple[float, int]:
    """Seconds of one bronze run, discovery and outcome included, and the rows."""
    settings = Settings.of(str(folder / f"lake{number}"), str(folder / "landing"), folder / "pipelines")
    at = layout.Lake(settings.lake, variant)
    clock = time.monotonic()
    Job(load(variant, settings), at, "bronze", {"run_id": "bench"}, spark).run()
    return time.monotonic() - clock, DeltaTable(at.table("bronze", "readings")).count()


def plain(spark: SparkSession, folder: Path, number: int) -> tuple[float, int]:
    """Seconds of the same with Spark alone, and the rows."""
    target = str(folder / f"plain{number}")
    clock = time.monotonic()
    rows = spark.read.schema(SCHEMA).option("columnNameOfCorruptRecord", "_corrupt_record")
    frame = rows.json(str(folder / "landing" / "readings")).selectExpr("*", "_metadata.file_path AS source_file")
    frame.write.format("delta").mode("append").save(target)
    return time.monotonic() - clock, DeltaTable(target).count()


def main() -> None:
    """Measures pairs and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3, help="rounds to measure, after one that warms up")
    arguments = parser.parse_args()
    spark = session.session_inside("ingest")
    ratios: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder, arguments.records)
        for number in range(arguments.runs + 1):
            theirs, their_rows = plain(spark, folder, number)
            for variant, found in ratios.items():
                mine, my_rows = ours(spark, folder, number, variant)
                if my_rows != their_rows:
                    sys.exit(f"the tables differ: {my_rows} and {their_rows} rows")
                if number:
                    found.append(mine / theirs)
                    print(f"round {number}, {variant}: {mine:.1f} s / {theirs:.1f} s = {found[-1]:.2f}", flush=True)
    spark.stop()
    for variant, found in ratios.items():
        print(f"{variant}: {statistics.median(found):.2f} (the aim is {AIMS[variant]}), {arguments.records:,} records")


if __name__ == "__main__":
    main()
