"""Proves that tables are what they should be: ``spark-submit spark_jobs/tools/verify.py --pipeline NAME``."""

from __future__ import annotations

import sys

from sluicegate.jobs.verify_job import main

if __name__ == "__main__":
    sys.exit(main())
