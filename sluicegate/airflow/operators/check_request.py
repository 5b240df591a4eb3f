"""First task of a run: logs its request, refuses one that makes no sense, and has a person approve a full refresh."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator

from sluicegate.airflow.connections import provide_store
from sluicegate.airflow.reporting.failure_reason import keep_failure_reason
from sluicegate.airflow.run_request import failure, read_request
from sluicegate.definition import LAYERS, load
from sluicegate.errors import SluicegateError, UserError
from sluicegate.escapes import escape_text
from sluicegate.launch.run_mode import RunMode

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluicegate.definition import Pipeline
    from sluicegate.launch.request import Request
    from sluicegate.settings import Settings

# After that a full refresh counts as rejected.
ANSWER_WITHIN = timedelta(days=1)


class CheckRequest(ApprovalOperator):
    """Checks the request of a run; a full refresh is deferred here until a person approves it.

    A rejection, or a day without an answer, ends the run with all other tasks skipped.

    Args:
        pipeline: name of the pipeline.
        settings: where things are.
        approvers: ids of the users who may answer; without them everybody who may edit the run.
        kwargs: what ApprovalOperator takes.
    """

    def __init__(self, *, pipeline: str, settings: Settings, approvers: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(
            subject=f"Full refresh of tables of {pipeline}?",
            assigned_users=[{"id": user, "name": user} for user in approvers] or None,
            defaults=self.REJECT,
            response_timeout=ANSWER_WITHIN,
            **kwargs,
        )
        self.pipeline = pipeline
        self.settings = settings

    @keep_failure_reason
    @provide_store
    def execute(self, context: Context) -> Any:
        """Check the request, and ask for approval of a full refresh.

        Raises:
            AirflowFailException: the request cannot be met, or would change nothing.
        """
        try:
            pipeline = load(self.pipeline, self.settings)
            request = read_request(pipeline, context)
            if request.mode == RunMode.FULL_REFRESH:
                self.body = "\n".join(f"- {line}" for line in self._preview(pipeline, request))
        except SluicegateError as error:
            raise failure(error) from None
        self.log.info("this run %s", escape_text(str(request)))
        if request.mode != RunMode.FULL_REFRESH:
            return str(request)
        self.log.info("waiting for a person to approve the full refresh:\n%s", self.body)
        return super().execute(context)

    def _preview(self, pipeline: Pipeline, request: Request) -> list[str]:
        """Preview of a full refresh, a line or more for each table, for the person who decides."""
        from sluicegate.lake import layout, tables
        from sluicegate.landing.chosen import (
            reread,  # not above: parsing a DAG file needs neither pyarrow nor deltalake
        )

        lake = layout.Lake(self.settings.lake, pipeline.name)
        lines = []
        for layer in LAYERS:
            for name in request.names(pipeline, layer):
                bronze = pipeline.bronze.get(name)
                if bronze is not None and bronze.reads_files and tables.delta_table(lake.ledger(name)) is not None:
                    lines += [f"{name}: {line}" for line in reread.preview(name, bronze, lake).sentences(False)]
                elif bronze is not None and bronze.kafka is not None:
                    lines.append(f"{name}: not refreshed, because Kafka may have deleted older records")
                else:
                    rows = tables.rows(tables.delta_table(lake.table(layer, name)))
                    lines.append(f"{name}: its {rows:,} rows are replaced by the rows of today's definition")
        if not lines:
            raise UserError("no table to refresh")
        return lines
