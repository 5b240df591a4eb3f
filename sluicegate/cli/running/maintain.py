"""``sluicegate maintain``."""

from __future__ import annotations

from sluicegate import api
from sluicegate.cli.options import JsonOption, PipelineName, pass_settings, printer, show_json, show_table
from sluicegate.console import say
from sluicegate.settings import Settings


@pass_settings("lake", "landing", "pipelines", "master", "target")
def maintain(pipeline: PipelineName, *, settings: Settings, as_json: JsonOption = False) -> None:
    """Compact small files of the tables (OPTIMIZE), and delete files that no recent version needs (VACUUM).

    Example: sluicegate maintain heart_rate
    """
    from sluicegate.lake.layout import Lake
    from sluicegate.launch import submit
    from sluicegate.maintenance import optimize_vacuum as of

    definition = api.load(pipeline, settings)
    lake = Lake(definition.settings.lake, definition.name)
    before = of.maintained_tables(definition, lake)
    due = [table for table in before if table.is_due]
    if due:  # also where Spark has nothing to do: it is rare, and one way
        submit.submit("maintain", pipeline, definition.settings, submit.run_info(), printer(as_json))
    facts = of.compare_tables(before, of.maintained_tables(definition, lake))
    if as_json:
        show_json(facts)
        return
    if not due:
        say("nothing to maintain; Spark was not started")
    columns = ["table", "files_before", "files_after", "bytes_before", "bytes_after", "held"]
    show_table(columns, [[fact[column] for column in columns] for fact in facts], right=columns[1:5])
