"""Serves Spark Connect with our settings: ``spark-submit spark_jobs/tools/serve.py --port N``."""

from __future__ import annotations

import sys

from sluicegate.jobs.serve_job import main

if __name__ == "__main__":
    sys.exit(main())
