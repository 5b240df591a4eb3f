"""Brings silver tables up to their bronze tables: ``spark-submit spark_jobs/silver.py --pipeline NAME``."""

from __future__ import annotations

import sys

from sluicegate.jobs.layer import main

if __name__ == "__main__":
    sys.exit(main("silver"))
