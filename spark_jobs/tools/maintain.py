"""Puts small files together and deletes old ones: ``spark-submit spark_jobs/tools/maintain.py --pipeline NAME``."""

from __future__ import annotations

import sys

from sluicegate.jobs.maintain import main

if __name__ == "__main__":
    sys.exit(main())
