"""Tells the catalog of a pipeline's tables: ``spark-submit spark_jobs/tools/catalog.py --pipeline NAME``."""

from __future__ import annotations

import sys

from sluicegate.jobs.catalog import main

if __name__ == "__main__":
    sys.exit(main())
