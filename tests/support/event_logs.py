"""Streams that Spark's event logs tell of: what a listener of Spark was told, written by Spark itself."""

from __future__ import annotations

import json
from pathlib import Path

STARTED = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent"


def options(folder: Path) -> str:
    """Options of a JVM by which each Spark in it writes its event log into a folder."""
    settings = {"enabled": "true", "dir": folder.as_uri(), "compress": "false"}
    return " ".join(f"-Dspark.eventLog.{name}={value}" for name, value in settings.items())


def streams(folder: Path) -> dict[str, list[str]]:
    """Names of the streams that each application in a folder of event logs started, by the application's id."""
    return {log.name.removeprefix("eventlog_v2_"): sorted(_started(log)) for log in folder.iterdir()}


def _started(log: Path) -> list[str]:
    events = [json.loads(line) for file in log.glob("events_*") for line in file.read_text().splitlines()]
    return [event["name"] for event in events if event["Event"] == STARTED]
