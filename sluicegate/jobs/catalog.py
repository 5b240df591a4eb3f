"""Job that registers a pipeline's tables in a catalog."""

from __future__ import annotations

import argparse

from sluicegate.console import say
from sluicegate.errors import UserError
from sluicegate.flow.report import RunReport
from sluicegate.jobs import base
from sluicegate.maintenance.catalog import database, prepare, register
from sluicegate.spark import metastore, session


def parser() -> argparse.ArgumentParser:
    """Return the command line of ``spark_jobs/tools/catalog.py``."""
    return base.parser("catalog")


def main(argv: list[str] | None = None) -> int:
    """Run ``spark_jobs/tools/catalog.py``; return the exit code."""
    return base.run_guarded(lambda: _run(parser().parse_args(argv)))


def _run(arguments: argparse.Namespace) -> RunReport:
    pipeline, lake, _ = base.job_context(arguments)
    if not metastore.address():
        raise UserError(f"no catalog is configured: {metastore.ADDRESS} is not set", hint="see docs/howto/catalog.md")
    say(f"{pipeline.name} catalog")
    spark = session.open_session(f"{pipeline.name}.catalog", lake)
    prepare(spark)
    entered = register(spark, pipeline, lake)
    lines = [f"{database(pipeline).name}.{name}" for name in entered]
    say(*([f"  entered {line}" for line in lines] or ["  nothing new"]))
    return RunReport(pipeline.name, "catalog", notes=lines)
