"""Moved to ``spark_jobs/tools/maintain.py``; this path works until the next version."""

from __future__ import annotations

import sys

from sluicegate.jobs.maintain import main

if __name__ == "__main__":
    sys.exit(main())
