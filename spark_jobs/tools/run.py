"""Runs the layers of a pipeline in one Spark: ``spark-submit spark_jobs/tools/run.py --pipeline NAME``."""

from __future__ import annotations

import sys

from sluicegate.jobs.run_job import main

if __name__ == "__main__":
    sys.exit(main())
