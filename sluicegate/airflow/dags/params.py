"""Form of a manually triggered run: its params, with descriptions and schemas.

Airflow checks the values against these schemas, whether they come from its page, REST API or command line; their
combination is checked by the run's first task.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from sluicegate.definition import Pipeline
from sluicegate.launch.discard import LONGEST_NOTE

# A day or a time, or nothing: Airflow checks ``format`` only where another package is installed.
_TIME = r"^(\d{4}-?\d{2}-?\d{2}([T ]\d{2}(:?\d{2}(:?\d{2}([.,]\d+)?)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?)?$"

# Mode by the kind of run and the other fields. The default is not `incremental`, since Airflow's page sends the form's
# defaults with a backfill as well.
AUTO = "auto"

REPLAY = "replay"

DISCARD, UNDO_DISCARD = "discard", "undo-discard"

FIELDS = ("mode", "from", "to", "tables", "rules", "note", "discard", "quarantine", "max_files")
"""Fields of the form."""

_MODES = {
    AUTO: "auto: new data; in a backfill, or with from and to, reprocess that interval, too",
    "incremental": "incremental: new data only",
    "interval": "interval: new data, and reprocess an interval of event times (from, to)",
    "full-refresh": "full-refresh: rebuild tables from all files and records, after approval",
    REPLAY: "replay: re-evaluate the quarantined records of one silver table (tables, rules)",
    DISCARD: "discard: stop waiting for quarantined records of one silver table (tables, rules, note)",
    UNDO_DISCARD: "undo-discard: return discarded records to quarantine (tables, rules)",
}


def form(pipeline: Pipeline) -> dict[str, Param]:
    """Return the params of a pipeline.

    None depends on the time, which would make a new version of the DAG at each parse.
    """
    names = [*pipeline.bronze, *pipeline.silver, *pipeline.gold]
    end: dict[str, Any] = {"type": ["null", "string"], "format": "date-time", "pattern": _TIME}
    return {
        "mode": Param(
            AUTO, type="string", enum=list(_MODES), values_display=_MODES, title="Mode",
            description_md="What the run does. Every mode brings the tables to today's definition.",
        ),
        "from": Param(
            None, title="From", **end,
            description_md="Start of the interval by **event time**, UTC, inclusive.",
        ),
        "to": Param(
            None, title="To", **end,
            description_md="End of the interval by event time, UTC, exclusive.",
        ),
        "tables": Param(
            None, type=["null", "array"], items={"type": "string", "enum": names}, uniqueItems=True, examples=names,
            title="Tables", description_md="Only these tables, of any layer. Empty: all tables.",
        ),
        "rules": Param(
            None, type=["null", "array"], items={"type": "string"}, uniqueItems=True, title="Rules",
            description_md="Only records that broke one of these rules, in a replay or discard. Empty: all.",
        ),
        "note": Param(
            None, type=["null", "string"], maxLength=LONGEST_NOTE, title="Note",
            description_md="Reason of a discard. It is stored, so do not enter personal data.",
        ),
        "discard": Param(
            None, type=["null", "string"], title="Discard",
            description_md="Undo only the discard with this id. Empty: all.",
        ),
        "quarantine": Param(
            None, type=["null", "string"], title="Quarantine",
            description_md="Version of the quarantine shown on the Lakehouse page, for a discard. Leave empty.",
        ),
        "max_files": Param(
            None, type=["null", "integer"], minimum=1, title="Max files",
            description_md="Maximum number of files for each bronze table, oldest first. Empty: all waiting files.",
        ),
    }  # fmt: skip


def form_of_verification() -> dict[str, Param]:
    """Return the params of the DAG that verifies a pipeline."""
    return {
        "whole": Param(
            False, type="boolean", title="Whole",
            description_md="Compare all files, records and rows. Otherwise only what changed since the last "
            "verification, plus everything not compared for a week; or the sample set in the definition.",
        )
    }  # fmt: skip
