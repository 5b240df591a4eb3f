"""``sluicegate catalog``."""

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
)
from sluicegate.settings import Settings


def catalog(
    pipeline: PipelineName,
    lake: LakeOption = None,
    landing: LandingOption = None,
    pipelines: PipelinesOption = None,
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell the catalog of a pipeline's tables, whatever it was told before (a run does so for new ones).

    Example: sluicegate catalog heart_rate
    """
    from sluicegate.run import submit

    settings = Settings.of(lake, landing, pipelines, master)
    load_pipeline(pipeline, settings)
    stream = sys.stderr if as_json else sys.stdout
    done = submit.submit(
        "catalog", pipeline, settings, submit.RUN_INFO, lambda line: print(line, file=stream, flush=True)
    )
    if as_json:
        show_json({"entered": done.notes})
