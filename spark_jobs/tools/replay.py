"""Judges records of a silver table again: ``spark-submit spark_jobs/tools/replay.py --pipeline NAME --table T``."""

from __future__ import annotations

import sys

from sluicegate.jobs.replay import main

if __name__ == "__main__":
    sys.exit(main())
