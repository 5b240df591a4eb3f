"""Tests a pipeline by its cases: ``spark-submit spark_jobs/tools/cases.py --pipeline NAME``."""

from __future__ import annotations

import sys

from sluicegate.tools.testing.job import main

if __name__ == "__main__":
    sys.exit(main())
