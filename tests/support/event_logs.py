"""Streams that Spark's event logs tell of: what a listener of Spark was told, written by Spark itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

STARTED = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent"


def options(folder: Path) -> str:
    """Options of a JVM by which each Spark in it writes its event log into a folder."""
    settings = {"enabled": "true", "dir": folder.as_uri(), "compress": "false"}
    return " ".join(f"-Dspark.eventLog.{name}={value}" for name, value in settings.items())


def streams(folder: Path) -> dict[str, list[str]]:
    """Names of the streams that each application in a folder of event logs started, by the application's id."""
    return {log.name.removeprefix("eventlog_v2_"): sorted(_started(log)) for log in folder.iterdir()}


def streams_by_job(folder: Path) -> dict[str, list[list[str]]]:
    """Names of the streams of each run of a job, by the job's name; of applications that have ended."""
    runs: dict[str, list[list[str]]] = {}
    for log in sorted(folder.iterdir()):
        if list(log.glob("appstatus_*.inprogress")):
            continue
        [job] = [event["App Name"] for event in _events(log) if event["Event"] == "SparkListenerApplicationStart"]
        runs.setdefault(job, []).append(sorted(_started(log)))
    return runs


def _started(log: Path) -> list[str]:
    return [event["name"] for event in _events(log) if event["Event"] == STARTED]


def _events(log: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(log.glob("events_*")):
        compression = "zstd" if file.suffix == ".zstd" else None
        with pa.input_stream(str(file), compression=compression) as text:
            yield from map(json.loads, text.read().splitlines())
