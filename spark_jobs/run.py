"""Moved to ``spark_jobs/tools/run.py``; this path works until the next version."""

from __future__ import annotations

import sys

from sluicegate.jobs.run_job import main

if __name__ == "__main__":
    sys.exit(main())
