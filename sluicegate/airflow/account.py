"""The last task of a run: it proves that what was read is accounted for, and says how good the data was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from sluicegate.airflow.asked import failure, who
from sluicegate.airflow.operator import alone
from sluicegate.airflow.store import with_store
from sluicegate.definition import LAYERS, load
from sluicegate.errors import SluicegateError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluicegate.definition import Pipeline
    from sluicegate.settings import Settings

# Rows of a table up to which each of its records is looked for by its identity: some seconds, and a few hundred MB.
# Larger tables are proven by the sums that their logs tell; `sluicegate status --verify` looks at all.
RECORDS = 5_000_000


class Account(BaseOperator):
    """Proves that every landed file and every record of it is in exactly one place, and fails if not. No Spark.

    Args:
        pipeline: name of the pipeline.
        settings: where things are.
        kwargs: what every operator takes.
    """

    def __init__(self, *, pipeline: str, settings: Settings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.settings = settings

    @with_store
    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Looks at all tables, while no other run changes them.

        Returns:
            for each table its rows, what stands beside it, and how many rows broke each rule in this run.

        Raises:
            AirflowFailException: something does not add up; no retry changes that.
        """
        from sluicegate.lake import Lake  # not above: parsing a DAG file needs neither pyarrow nor deltalake
        from sluicegate.lock import pipeline_lock
        from sluicegate.status import verify

        try:
            pipeline = load(self.pipeline, self.settings)
            at = Lake(self.settings.lake, self.pipeline)
            with alone(self.pipeline, self.settings, context), pipeline_lock(at, f"account of {who(context)}"):
                problems = verify(pipeline, self.settings, RECORDS)
                tables = _tables(pipeline, self.settings, context["dag_run"].run_id)
        except SluicegateError as error:
            raise failure(error) from None
        for line in _lines(tables):
            self.log.info(line)
        if problems:
            raise AirflowFailException("\n".join(["this does not add up:", *(f"  {problem}" for problem in problems)]))
        self.log.info("every landed file and every record is accounted for")
        return tables


def _tables(pipeline: Pipeline, settings: Settings, run_id: str) -> list[dict[str, Any]]:
    from sluicegate import lake

    at = lake.Lake(settings.lake, pipeline.name)
    found = []
    for layer in LAYERS:
        for name in pipeline.names(layer):
            table = lake.delta_table(at.table(layer, name))
            last = lake.last_commit_of_ours(table)
            said = last.ours if last is not None and last.ours and last.ours.get("run_id") == run_id else {}
            beside = {"quarantined": at.quarantine(name), "set aside": at.set_aside(name)} if layer == "silver" else {}
            counts = {what: lake.rows(lake.delta_table(uri)) for what, uri in beside.items()}
            facts = {"layer": layer, "table": name, "rows": lake.rows(table), **counts}
            found.append({**facts, "expectations": said.get("expectations") or {}})
    return found


def _lines(tables: list[dict[str, Any]]) -> list[str]:
    """The tables for people."""
    lines = []
    for table in tables:
        beside = "".join(f", {table[what]:,} {what}" for what in ("quarantined", "set aside") if what in table)
        lines.append(f"{table['layer']:<6} {table['table']:<28} {table['rows']:>9,} rows{beside}")
        for rule, counts in table["expectations"].items():
            if counts["failed"]:
                lines.append(
                    f"         {rule}: {counts['failed']:,} of {sum(counts.values()):,} rows failed in this run"
                )
    return lines
