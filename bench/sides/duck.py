"""The heart-rate pipeline with DuckDB and delta-rs, without a JVM: ``python bench/sides/duck.py LANDING LAKE``.

Reads all files, joins, aggregates and writes three Delta tables anew. It has no memory of files: each run reads all of
them.
"""

from __future__ import annotations

import sys

import duckdb
from deltalake import write_deltalake

COLUMNS = "{device_id: 'VARCHAR', mrn: 'VARCHAR', time: 'VARCHAR', heartrate: 'VARCHAR'}"


def write(con: duckdb.DuckDBPyConnection, query: str, lake: str, table: str) -> None:
    """Makes a table of a query, here and in the lake."""
    con.execute(f"CREATE TABLE {table} AS {query}")
    write_deltalake(f"{lake}/{table}", con.table(table).to_arrow_reader(), mode="overwrite", schema_mode="overwrite")


def main(landing: str, lake: str) -> None:
    """Makes the three tables."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    write(
        con,
        f"SELECT device_id, mrn, time, heartrate, filename AS source_file FROM read_json("
        f"'{landing}/recordings/*.json', format = 'array', columns = {COLUMNS}, filename = true)",
        lake,
        "bronze",
    )
    write(
        con,
        "SELECT TRY_CAST(device_id AS INTEGER) AS device_id, b.mrn, to_timestamp(TRY_CAST(time AS DOUBLE)) AS time,"
        " TRY_CAST(heartrate AS DOUBLE) AS heartrate, p.* EXCLUDE (mrn) FROM bronze AS b"
        f" JOIN read_csv('{landing}/patients/*.csv', header = true, all_varchar = true) AS p USING (mrn)"
        " WHERE TRY_CAST(heartrate AS DOUBLE) > 0",
        lake,
        "silver",
    )
    write(
        con,
        "SELECT mrn, name, date_trunc('day', time) AS date, avg(heartrate) AS avg_heartrate FROM silver GROUP BY ALL",
        lake,
        "gold",
    )


if __name__ == "__main__":
    main(*sys.argv[1:3])
