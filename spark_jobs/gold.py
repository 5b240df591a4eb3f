"""Bring gold tables up to silver: ``spark-submit spark_jobs/gold.py --pipeline NAME``.

Reads
    for each gold table the tables of its query, most often one silver table.
What is new
    The version of the source that the gold table has taken in stands in the gold table's own log, with the rows:
    no checkpoint can be lost. (A table with a ``mode`` is a classic streaming aggregation, and has a checkpoint.)
The stream
    ``readStream`` over the source's change data feed from that version on, or over all of its rows on a first load,
    ``trigger(availableNow=True)``: ``changes`` and ``all_rows`` in ``sluicegate/flow/streaming/source_stream.py``,
    started by ``run_available`` in ``sluicegate/flow/streaming/foreach_batch.py``; a query only where
    docs/design/streams.md says so, *Where a query reads*. Its ``foreachBatch`` computes the groups that the changed
    rows affect (``apply`` in ``sluicegate/gold/refresh.py``), so that the table equals a full recomputation; on a first
    load the whole query, over the source as of the version at which the batch ends.
Commits
    the rows that differ, and the source's version.
Prints
    a line for each table: changed rows read, rows of the table, and how it was refreshed.
Exit codes
    0 done; 1 anything else; 2 something that a person has to correct; 3 data broke an ``expect_or_fail``.
"""

from __future__ import annotations

import sys

from sluicegate.jobs.layer_job import main

if __name__ == "__main__":
    sys.exit(main("gold"))
