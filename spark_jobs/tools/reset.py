"""Makes a bronze table anew from its files: ``spark-submit spark_jobs/tools/reset.py --pipeline NAME --table T``."""

from __future__ import annotations

import sys

from sluicegate.jobs.reload import main

if __name__ == "__main__":
    sys.exit(main("reset"))
