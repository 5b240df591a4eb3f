"""Bring silver tables up to bronze: ``spark-submit spark_jobs/silver.py --pipeline NAME``.

Reads
    for each silver table the table that its query names as ``STREAM(table)``, and its lookups.
What is new
    The version of the source that the silver table has taken in stands in the silver table's own log, with the rows:
    no checkpoint can be lost.
The stream
    ``readStream`` over the source's change data feed from that version on, or over all of its rows on a first load,
    ``trigger(availableNow=True)``: ``changes`` and ``all_rows`` in ``sluicegate/flow/streaming/source_stream.py``,
    started by ``run_available`` in ``sluicegate/flow/streaming/foreach_batch.py``; a query only where
    docs/design/streams.md says so, *Where a query reads*. Its ``foreachBatch`` evaluates the query and the
    expectations (``apply`` in ``sluicegate/silver/process.py``), with every lookup at one version.
Commits
    refused records to its quarantine, then rows to the table with the source's version; that none is missing is
    checked before.
Prints
    a line for each table that adds up: read = written + quarantined + dropped + duplicates; below it broken rules.
Exit codes
    0 done; 1 anything else; 2 something that a person has to correct; 3 data broke an ``expect_or_fail``.
"""

from __future__ import annotations

import sys

from sluicegate.jobs.layer_job import main

if __name__ == "__main__":
    sys.exit(main("silver"))
