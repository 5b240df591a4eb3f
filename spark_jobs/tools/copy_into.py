"""Copies chosen files into a bronze table: ``spark-submit spark_jobs/tools/copy_into.py --pipeline NAME …``."""

from __future__ import annotations

import sys

from sluicegate.jobs.copy_into import main

if __name__ == "__main__":
    sys.exit(main())
