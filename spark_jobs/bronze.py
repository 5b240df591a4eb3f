"""Land new files in the bronze tables: ``spark-submit spark_jobs/bronze.py --pipeline NAME``.

Reads
    the landing folders that the pipeline's ``pipeline.yaml`` names (or Kafka topics, or other programs' Delta tables).
What is new
    Each file is first entered into the table's *ledger*, a Delta table of paths, sizes and times. The ledger's version
    that the bronze table has taken in stands in the bronze table's own log, with the rows: no checkpoint can be lost.
The stream
    ``readStream`` over the ledger from that version on, ``trigger(availableNow=True)``: ``changes`` in
    ``sluicegate/flow/streaming/source_stream.py``, started by ``run_available`` in
    ``sluicegate/flow/streaming/foreach_batch.py``. Its ``foreachBatch`` reads the files that the batch names
    (``apply`` in ``sluicegate/bronze/ingest.py``). A Delta table of another program has no ledger: its own new rows are
    the stream.
Commits
    every record, rescued and corrupt ones too, with the ledger's version, in one Delta commit for each ledger batch;
    then the status of each file.
Prints
    a line for each table that adds up (records = written, files, bytes), and below it files that could not be read.
Exit codes
    0 done; 1 anything else; 2 something that a person has to correct; 3 data broke an ``expect_or_fail``.
"""

from __future__ import annotations

import sys

from sluicegate.jobs.layer_job import main

if __name__ == "__main__":
    sys.exit(main("bronze"))
