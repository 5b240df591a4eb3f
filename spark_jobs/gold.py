"""Brings gold tables up to their silver tables: ``spark-submit spark_jobs/gold.py --pipeline NAME``."""

from __future__ import annotations

import sys

from sluicegate.jobs.layer import main

if __name__ == "__main__":
    sys.exit(main("gold"))
