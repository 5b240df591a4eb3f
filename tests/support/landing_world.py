"""A workspace whose files land one after another, and whose layers are run as jobs run them."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluicegate.jobs.layer_job import Job
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sluicegate.flow.selection import Choice
    from sluicegate.flow.table_report import TableReport


@dataclass
class LandingWorld(Workspace):
    """A workspace with a clock by which each file is landed later than the one before."""

    clock: int = 0

    def put(self, file: str, *records: dict[str, Any]) -> Path:
        """Lands a file, or lands it again."""
        self.clock += 1
        path = self.folder / "landing" / f"{file}.json"
        path.write_text("\n".join(json.dumps(one) for one in records))
        then = int(time.time()) - 50_000 + self.clock
        os.utime(path, (then, then))
        return path

    def take_in(
        self, spark: SparkSession | None, *layers: str, only: str | None = None, choice: Choice | None = None
    ) -> dict[str, TableReport]:
        """Runs bronze and silver, or some layers or one table, as jobs do."""
        reports: dict[str, TableReport] = {}
        for layer in layers or ("bronze", "silver"):
            job = Job(self.definition, self.lake, layer, {"run_id": "test"}, spark, only=only, choice=choice)
            reports |= {table.table: table for table in job.run().tables}
        return reports
