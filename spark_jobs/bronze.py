"""Lands newly arrived files in the bronze tables: ``spark-submit spark_jobs/bronze.py --pipeline NAME``."""

from __future__ import annotations

import sys

from sluicegate.jobs.layer import main

if __name__ == "__main__":
    sys.exit(main("bronze"))
