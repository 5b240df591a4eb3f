"""Runs a pipeline continuously: ``spark-submit spark_jobs/tools/continuous.py --pipeline NAME --every 4s``."""

from __future__ import annotations

import sys

from sluicegate.jobs.continuous import main

if __name__ == "__main__":
    sys.exit(main())
