"""Waits until there is something to do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferralTimeout

from sluicegate.airflow.connections import with_store
from sluicegate.airflow.run_request import request_of
from sluicegate.definition import load
from sluicegate.errors import UserError
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class LandedFilesSensor(BaseOperator):
    """Succeeds when a run of the pipeline would have something to do.

    That is: files have landed that the ledger does not know and that are not still being written, a Delta table that is
    a source has new versions, or a former run was killed and left a table behind the one before it. It asks the very
    code that the jobs ask, and writes nothing. It looks once itself, and then waits in the triggerer, where it holds no
    worker. When nothing comes it ends as *skipped*, and so do the tasks after it. A run that makes an interval again,
    or tables anew, waits for nothing.

    It is no ``BaseSensorOperator``: that takes every failure for a reason to skip once it is to skip at a timeout, and
    a missing folder must not look like a quiet day.

    Args:
        pipeline: name of the pipeline.
        settings: where things are; the triggerer has to see the same places.
        poke_interval: seconds between two looks.
        timeout: seconds after which it gives up; with 0 it looks once.
        kwargs: what every operator takes.
    """

    ui_color = "#e6f1f2"  # that of Airflow's sensors

    def __init__(
        self,
        *,
        pipeline: str,
        settings: Settings,
        poke_interval: timedelta | float = 30,
        timeout: timedelta | float = 3600,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.settings = settings
        self.poke_interval = _seconds(poke_interval)
        self.timeout = _seconds(timeout)

    @with_store
    def execute(self, context: Context) -> dict[str, int] | None:
        """Looks, and ends or lets the triggerer look on.

        Returns:
            how many ``files`` of how many ``bytes`` wait; None for a run that waits for none.

        Raises:
            AirflowFailException: only a person can help; it is not tried again.
            AirflowSkipException: there is nothing, and it is not to wait.
            TaskDeferred: there is nothing yet.
        """
        from sluicegate.airflow.sensors.trigger import LandedFilesTrigger, find_landed

        try:
            request = request_of(load(self.pipeline, self.settings), context)
            if request.mode != "incremental":
                self.log.info("this run waits for no files: it %s", request)
                return None
            found, message = find_landed(self.pipeline, self.settings, request.tables)
        except UserError as error:
            raise AirflowFailException(error.for_people()) from None
        self.log.info(message)
        if found is not None:
            return found
        if not self.timeout:
            raise AirflowSkipException("the run has nothing to do")
        trigger = LandedFilesTrigger(
            pipeline=self.pipeline,
            places=self.settings.arguments,
            tables=list(request.tables),
            every=self.poke_interval,
        )
        self.defer(trigger=trigger, method_name="resume", timeout=timedelta(seconds=self.timeout))

    def resume(self, context: Context, event: Mapping[str, Any]) -> dict[str, int]:
        """Ends with what the triggerer saw.

        Raises:
            AirflowFailException: only a person can help.
        """
        if "error" in event:
            raise AirflowFailException(event["error"])
        self.log.info("waiting: %s files of %s bytes", event["found"]["files"], event["found"]["bytes"])
        return dict(event["found"])

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Called by Airflow when the wait has ended, one way or another.

        Raises:
            AirflowSkipException: nothing came in time.
        """
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            waited = timedelta(seconds=self.timeout)
            raise AirflowSkipException(f"nothing came within {waited}: the run has nothing to do") from None


def _seconds(span: timedelta | float) -> float:
    return span.total_seconds() if isinstance(span, timedelta) else float(span)
