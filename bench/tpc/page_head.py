"""Text of docs/tpc.md above the figures."""

from __future__ import annotations

HEAD = """\
# TPC-H and TPC-DI as incrementally refreshed tables

This page shows which tables of two well-known benchmarks are refreshed incrementally, and what that costs beside
recomputing them. [A table of all figures]({table}) has each table's rows, technique, reason, seconds, CPU seconds and
written bytes.

To repeat it, run `python -m bench.tpc` on a machine that does nothing else, which takes some hours;
`--only tpch --scale 0.01` is a small run of a few minutes.

TPC-H's 22 queries are gold tables over eight silver tables, which are kept up to date from change records (insert,
update, delete). In TPC-DI's warehouse seven tables are silver, and eleven are gold tables over histories of its
sources. The definitions are in [bench/tpc/pipelines](../bench/tpc/pipelines/tpch/pipeline.yaml); the data generator and
the oracle are beside them. After the first load and after each batch of changes, every table was compared with what
DuckDB computes from the landed files, by differently written queries.

"""
METHOD = """\
## How it is measured

- A batch changes a thousandth of each source's rows: inserts, updates and deletes.
- *Seconds* are the duration of one table's job in a warm Spark, *CPU seconds* those of Spark and Python, *written* the
  bytes of all new files: data, change feed, aggregate state, logs. The figures are medians over rounds.
- Each gold table has a twin with the same query and `refresh: full`, which is recomputed from the same tables. The two
  run in turn. For a silver table the twin is a full refresh.
- Gold tables have `refresh: incremental` here. The default, `auto`, chooses by cost: it recomputes a table whose inputs
  have up to 100,000 rows together, and for larger ones takes the technique that is estimated to be faster from previous
  runs. At these scales recomputing a table takes a second or two, so that `auto` recomputes most of them. Incremental
  refresh pays when recomputing takes longer than its fixed cost.

## Differences from the specifications

These are tables to be kept up to date, not results of the benchmarks:

- A table has no LIMIT, since which rows are within it depends on all rows. The ORDER BY is kept, so that `SELECT *
  FROM tpch.q03 LIMIT 10` in `sluicegate sql` returns the first rows in that order (queries 2, 3, 10, 18 and 21).
- An aggregate over all rows, with which rows are compared, is a gold table of its own: `q11_total`, `q15_best`,
  `q22_average`. So is the level below an aggregate over all rows: `q11_values`, `q13_customers`, `q15_revenue`,
  `q17_parts`. The minimum cost of query 2 and the average quantity of query 17 are window functions by part.
- The data comes from a generator in plain Python, with the literals of the validation queries. Matching rows are more
  frequent than in the official data, so that a small scale suffices.
- TPC-DI's files are JSON, CSV, Parquet and fixed-width lines. A surrogate key is the business key with the second at
  which the version starts. A version of an account or security ends where the version of its customer or company
  ends. The time dimension has 1,440 minutes. There are no audit tables: the ledger and the quarantine serve their
  purpose.
"""
