"""``sluicegate maintain``."""

from __future__ import annotations

import sys

from sluicegate.cli.options import (
    JsonOption,
    LakeOption,
    LandingOption,
    MasterOption,
    PipelineName,
    PipelinesOption,
    load_pipeline,
    show_json,
    show_table,
)
from sluicegate.settings import Settings


def maintain(
    pipeline: PipelineName,
    lake: LakeOption = None,
    landing: LandingOption = None,
    pipelines: PipelinesOption = None,
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put small files of the tables together, and delete files that no version of the last days needs.

    Example: sluicegate maintain heart_rate
    """
    from sluicegate.lake.layout import Lake
    from sluicegate.maintenance import optimize_vacuum as of
    from sluicegate.run import submit

    settings = Settings.of(lake, landing, pipelines, master)
    definition = load_pipeline(pipeline, settings)
    at = Lake(settings.lake, definition.name)
    before = of.maintainable(definition, at)
    due = [table for table in before if table.due]
    if due:  # also where Spark has nothing to do: it is rare, and one way
        stream = sys.stderr if as_json else sys.stdout
        submit.submit(
            "maintain", pipeline, settings, submit.RUN_INFO, lambda line: print(line, file=stream, flush=True)
        )
    facts = of.compared(before, of.maintainable(definition, at))
    if as_json:
        show_json(facts)
        return
    if not due:
        print("there is nothing to gain; Spark was not started")
    columns = ["table", "files_before", "files_after", "bytes_before", "bytes_after", "held"]
    show_table(columns, [[fact[column] for column in columns] for fact in facts], right=columns[1:5])
