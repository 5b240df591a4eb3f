"""What stands above the tables of docs/tpc.md."""

from __future__ import annotations

HEAD = """\
# TPC-H and TPC-DI as tables that are kept up to date

Made by `python -m bench.tpc`. TPC-H's 22 queries are gold tables over eight silver tables that change by records of
changes; of TPC-DI's warehouse seven tables are silver and eleven gold, over histories that are made of its sources.
The definitions are in [bench/tpc/pipelines](../bench/tpc/pipelines/tpch/pipeline.yaml), the generator of rows and
the oracle beside them. After the first load and after each landing of changes all tables were compared with what
DuckDB makes of the landed files, by queries of another form.

A landing changes a thousandth of the rows of each source: new rows, changed ones and deletes. *Seconds* are those
of one table's job in a warm Spark, *CPU* the CPU seconds of Spark and Python meanwhile, *written* all files that
were there afterwards: data, change feed, aggregate state, logs. Beside each gold table a twin with the same query
is made again whole (`refresh: full`) from the same tables, in turn; a silver table is made again by a full refresh.
Medians of rounds. Gold that can follow changes has `refresh: incremental` here; with `auto`, the default, tables of
up to 100,000 rows are read whole, which is faster, and beyond that the technique that former runs show to be the
faster one is taken.

What differs from the specifications, as this is about keeping tables and no result of the benchmarks:

- A table has no LIMIT: which rows are within it depends on all of them. The ORDER BY is kept, and `sluicegate sql`
  gives the first rows in that order for `SELECT * FROM tpch.q03 LIMIT 10`. So for queries 2, 3, 10, 18 and 21.
- A value of all rows that rows are compared with is a gold table of its own, so that a change of it is followed:
  `q11_total`, `q15_best`, `q22_average`. So is a level below a sum of all rows: `q11_values`, `q13_customers`,
  `q15_revenue`, `q17_parts`. The least cost of query 2 and the usual quantity of query 17 are windows by part.
- Rows come from a generator in plain Python, with the literals of the validation queries. What they look for is
  more frequent than in the real data, so that few rows suffice.
- TPC-DI's files are JSON, CSV, Parquet and lines of fixed width. A surrogate key is the key with the second in
  which the version begins. A version of an account or security ends where one of its customer or company ends. The
  times are 1,440 minutes; the audit tables have no counterpart, as the ledger and quarantine are what they are for.
"""
