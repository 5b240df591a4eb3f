"""Warm-up: run the sample pipeline, whose loaded classes go into the JVM's class-data archive."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from sluicegate.definition import load
from sluicegate.jobs.layer_job import Job
from sluicegate.lake.layout import LAYERS, Lake
from sluicegate.settings import HOME, Settings
from sluicegate.spark import jars
from sluicegate.spark.session import open_session

SAMPLES = HOME / "data" / "heart_rate"


def main(scratch: Path) -> None:
    """Run all layers twice: on a first file of each kind, and on files that land later."""
    settings = Settings.of(str(scratch / "lake"), str(scratch / "landing"), HOME / "pipelines", "local[2]")
    lake = Lake(settings.lake, "heart_rate")
    spark = open_session("warm-up")
    for number in (0, 1):
        for samples in SAMPLES.iterdir():
            file = sorted(samples.iterdir())[-number]
            landed = scratch / "landing" / samples.name / f"{number}{file.suffix}"
            landed.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, landed)
            os.utime(landed, (number, number))  # settled long ago
        for layer in LAYERS:
            Job(load("heart_rate", settings), lake, layer, {"run_id": "warm-up"}, spark).run()
    if any(file.name.startswith("hadoop-aws-") for file in jars.find_jars()):
        _ask_s3(spark)


def _ask_s3(spark: Any) -> None:
    """Load the classes of an S3 request, with an address where nothing answers."""
    settings = spark._jsc.hadoopConfiguration()
    nobody = {"endpoint": "http://127.0.0.1:1", "endpoint.region": "us-east-1", "path.style.access": "true",
              "access.key": "nobody", "secret.key": "nobody", "attempts.maximum": "1", "retry.limit": "0"}  # fmt: skip
    for name, value in nobody.items():
        settings.set(f"fs.s3a.{name}", value)
    place = spark._jvm.org.apache.hadoop.fs.Path("s3a://nobody/nothing")
    with suppress(Exception):  # Connection refused
        place.getFileSystem(settings).exists(place)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
