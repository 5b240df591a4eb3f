"""The heart-rate pipeline with dlt, into Delta tables: ``python bench/sides/dlt_heart_rate.py LANDING LAKE``.

Bronze is loaded incrementally, by the modification time of files. dlt moves data and leaves its transformation to
others, so silver and gold are queries over what it loaded, written anew in each run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

# dlt asks whether it runs inside of Airflow, by importing it: seconds that it need not pay for the one that is here.
sys.modules["airflow"] = None  # type: ignore[assignment]
os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"

import dlt  # noqa: E402
import duckdb  # noqa: E402
from deltalake import DeltaTable  # noqa: E402
from dlt.sources.filesystem import filesystem  # noqa: E402

TYPED = (
    "SELECT TRY_CAST(device_id AS INTEGER) AS device_id, b.mrn, to_timestamp(TRY_CAST(time AS DOUBLE)) AS time,"
    " TRY_CAST(heartrate AS DOUBLE) AS heartrate, p.* EXCLUDE (mrn) FROM bronze AS b"
    " JOIN read_csv('{landing}/patients/*.csv', header = true, all_varchar = true) AS p USING (mrn)"
    " WHERE TRY_CAST(heartrate AS DOUBLE) > 0"
)
DAYS = "SELECT mrn, name, date_trunc('day', time) AS date, avg(heartrate) AS avg_heartrate FROM silver GROUP BY ALL"


@dlt.transformer  # type: ignore[untyped-decorator]
def records(items: Any) -> Iterator[list[dict[str, Any]]]:
    """The records of files, each of which is one array."""
    for item in items:
        with item.open() as file:
            found = json.load(file)
        yield [record | {"source_file": item["file_url"]} for record in found]


def main(landing: str, lake: str) -> None:
    """Loads what is new, and makes the other tables."""
    destination = dlt.destinations.filesystem(bucket_url=f"file://{lake}")
    pipeline = dlt.pipeline(
        "heart_rate", pipelines_dir=f"{lake}/_pipelines", destination=destination, dataset_name="dlt"
    )
    files = filesystem(bucket_url=f"file://{landing}/recordings", file_glob="*.json")
    files.apply_hints(incremental=dlt.sources.incremental("modification_date"))
    found = (files | records).with_name("bronze")
    found.apply_hints(table_format="delta", write_disposition="append")
    pipeline.run(found)
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("bronze", DeltaTable(f"{lake}/dlt/bronze").to_pyarrow_dataset())
    for table, query in (("silver", TYPED.format(landing=landing)), ("gold", DAYS)):
        rows = con.sql(query).to_arrow_table()
        con.register(table, rows)
        pipeline.run(rows, table_name=table, write_disposition="replace", table_format="delta")


if __name__ == "__main__":
    main(*sys.argv[1:3])
