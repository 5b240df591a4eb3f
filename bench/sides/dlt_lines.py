"""JSON lines to a Delta table with dlt: ``python bench/sides/dlt_lines.py LANDING LAKE``.

Incremental by the modification time of files, as dlt documents it: a second run reads what is new.
"""

from __future__ import annotations

import os
import sys

# dlt asks whether it runs inside of Airflow, by importing it: seconds that it need not pay for the one that is here.
sys.modules["airflow"] = None  # type: ignore[assignment]
os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"

import dlt  # noqa: E402
from dlt.sources.filesystem import filesystem, read_jsonl  # noqa: E402


def main(landing: str, lake: str) -> None:
    """Loads what is new."""
    destination = dlt.destinations.filesystem(bucket_url=f"file://{lake}")
    pipeline = dlt.pipeline("lines", pipelines_dir=f"{lake}/_pipelines", destination=destination, dataset_name="dlt")
    files = filesystem(bucket_url=f"file://{landing}", file_glob="**/*.json")
    files.apply_hints(incremental=dlt.sources.incremental("modification_date"))
    found = (files | read_jsonl()).with_name("bronze")
    found.apply_hints(table_format="delta", write_disposition="append")
    pipeline.run(found)


if __name__ == "__main__":
    main(*sys.argv[1:3])
