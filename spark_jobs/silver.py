"""Bring silver tables up to bronze: ``spark-submit spark_jobs/silver.py --pipeline NAME``.

Reads
    for each silver table the table that its query names as ``STREAM(table)``, and its lookups.
What is new
    The version of the source that the silver table has taken in stands in the silver table's own log, with the rows:
    no checkpoint can be lost.
The stream
    ``readStream`` over the source's change data feed from that version on, or over all of its rows on a first load,
    ``trigger(availableNow=True)``: ``changes`` and ``all_rows`` in ``sluicegate/flow/source_stream.py``, run by
    ``take_first_batch`` there. Its ``foreachBatch`` evaluates the query and the expectations (``apply`` in
    ``sluicegate/silver/layer.py``), with every lookup at one version.
Commits
    rows to the table, refused records to its quarantine, and the source's version; proved beforehand to be all.
Prints
    a line for each table that adds up: read = written + quarantined + dropped + duplicates; below it broken rules.
Exit codes
    0 done; 1 anything else; 2 a mistake of the definition or the command; 3 data broke an ``expect_or_fail``.
"""

from __future__ import annotations

import sys

from sluicegate.jobs.layer import main

if __name__ == "__main__":
    sys.exit(main("silver"))
