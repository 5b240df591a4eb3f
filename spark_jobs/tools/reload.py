"""Reads chosen files again: ``spark-submit spark_jobs/tools/reload.py --pipeline NAME --table T --files F``."""

from __future__ import annotations

import sys

from sluicegate.jobs.reload import main

if __name__ == "__main__":
    sys.exit(main("reload"))
