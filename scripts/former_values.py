"""Makes tests/spark/data/former_values.tar.gz: values as the version before "values, not only records" stored them.

    git clone . ../former && git -C ../former checkout 5d6113d && make -C ../former setup
    .venv/bin/python -m scripts.former_values ../former tests/spark/data/former_values.tar.gz

That version cut 2.5 to 2 where the column was BIGINT, read CSV by Spark's own dialect, and named its working columns
as landed fields may be called. tests/spark/test_former_values.py continues the lake.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from scripts.former_lake import FormerLake, lines, main

DEFINITION = """\
name: former_values
description: Amounts, notes, prices and customers, as a former version stored them.
bronze:
  amounts_bronze: {path: "${landing}/amounts", format: parquet}
  notes_bronze: {path: "${landing}/notes", format: csv, options: {header: true}, schemaHints: id INT}
  prices_bronze: {path: "${landing}/prices", format: json, schemaHints: id INT}
  customers_bronze: {path: "${landing}/customers", format: json, schemaHints: "id INT, seq BIGINT"}
silver:
  amounts: {sql: "SELECT id, amount FROM STREAM(amounts_bronze)"}
  notes: {sql: "SELECT id, note FROM STREAM(notes_bronze)", keys: [id]}
  prices: {sql: "SELECT id, CAST(price AS INT) AS price FROM STREAM(prices_bronze)", keys: [id]}
  customers:
    from: customers_bronze
    apply_changes:
      keys: [id]
      sequence_by: seq
      stored_as_scd_type: 2
      column_list: [id, seq, name, city]
  current_customers:
    from: customers_bronze
    apply_changes: {keys: [id], sequence_by: seq, column_list: [id, seq, name, city]}
    pii: [name]
    deidentified: {name: mask}
gold:
  amount_total: {sql: "SELECT count(*) AS amounts, sum(amount) AS total FROM amounts"}
  price_ranks: {sql: "SELECT id, price, rank() OVER (ORDER BY price DESC, id) AS place FROM prices"}
"""


def parquet(amounts: Mapping[int, int | float], kind: pa.DataType) -> bytes:
    """Content of a Parquet file with the columns ``id`` and ``amount``."""
    file = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(amounts, pa.int64()), "amount": pa.array(amounts.values(), kind)}), file)
    return file.getvalue()


# `_arrived`, `_rank` and `_record` were names of working columns; a query that selects its columns was not stopped.
STEPS: Sequence[Mapping[str, bytes]] = (
    {
        "amounts/a.parquet": parquet({1: 10, 2: 20}, pa.int64()),
        "notes/a.csv": b'id,note\n1,"plain"\n2,"say ""hi"""\n3,"C:\\temp"\n',
        "prices/a.json": lines(
            {"id": 1, "price": "10", "_arrived": "by train"},
            {"id": 2, "price": "12.50", "_rank": 7, "_record": "vinyl"},
        ),
        "customers/a.json": lines(
            {"id": 1, "seq": 1, "name": "Ada", "city": "Bath"}, {"id": 2, "seq": 1, "name": "Bo", "city": "Cork"}
        ),
    },
    {
        "amounts/b.parquet": parquet({3: 2.5, 4: 30.0}, pa.float64()),
        "prices/b.json": lines({"id": 3, "price": "99"}),
        "customers/b.json": lines({"id": 1, "seq": 2, "name": "Ada", "city": "Derry"}),
    },
)

VALUES = FormerLake("former_values", DEFINITION, {}, STEPS)


if __name__ == "__main__":
    sys.exit(main(lake=VALUES))
