"""Deferrable sensor for landed files and other work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferralTimeout

from sluicegate.airflow import bundles
from sluicegate.airflow.connections import provide_store
from sluicegate.airflow.reporting.failure_reason import keep_failure_reason
from sluicegate.airflow.reporting.run_note import UNREPORTED
from sluicegate.airflow.run_request import create_exception, failure, read_request
from sluicegate.definition import load
from sluicegate.errors import DefinitionError, SluicegateError
from sluicegate.escapes import escape_text
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluicegate.launch.request import Request


# No `BaseSensorOperator`: with a soft-fail timeout that turns every failure into a skip, and a missing folder must not
# look like a quiet day.
class LandedFilesSensor(BaseOperator):
    """Succeeds when a run of the pipeline would have something to do.

    That is: files have landed that are not in the ledger and are settled, a source Delta table has new versions, or a
    killed run left a table behind. It uses the jobs' own discovery, and writes nothing. It checks once itself, and is
    then deferred to the triggerer, where it holds no worker. At the timeout it ends as *skipped*, and so do the tasks
    after it. A run that reprocesses an interval, or is a full refresh, does not wait.

    Args:
        pipeline: name of the pipeline.
        settings: where things are; the triggerer has to see the same places.
        poke_interval: seconds between two checks; while files settle it checks more often.
        timeout: seconds after which it gives up; with 0 it checks once.
        kwargs: what every operator takes.
    """

    ui_color = "#e6f1f2"  # the colour of Airflow's sensors

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

    @keep_failure_reason
    @provide_store
    def execute(self, context: Context) -> dict[str, int] | None:
        """Check once, then end or defer to the triggerer.

        Returns:
            number of ``files`` and ``bytes`` that wait; None for a run that does not wait.

        Raises:
            AirflowFailException: only a person can help, or files are late; no retry.
            AirflowSkipException: nothing waits, and the timeout is 0.
            TaskDeferred: nothing waits yet.
        """
        from sluicegate.airflow.sensors.trigger import LandedFilesTrigger

        request, landed = self._find(context)
        if request.mode != "incremental" or landed is not None:
            return landed
        if not self.timeout:
            self._expect_files(request)
            raise AirflowSkipException("the run has nothing to do")
        trigger = LandedFilesTrigger(
            pipeline=self.pipeline,
            tables=list(request.tables),
            every=self.poke_interval,
            **bundles.trigger_arguments(self.settings),
        )
        self.defer(trigger=trigger, method_name="resume", timeout=timedelta(seconds=self.timeout))

    def _find(self, context: Context) -> tuple[Request, dict[str, int] | None]:
        """Return the request and the files that wait for the run, None if there are none or the run waits for none.

        Raises:
            AirflowFailException: only a person can help; no retry.
            AirflowException: the store is out of reach, and the like.
        """
        from sluicegate.airflow.sensors.check import find_landed

        try:
            pipeline = load(self.pipeline, self.settings)
            request = read_request(pipeline, context)
            if request.mode != "incremental":
                self.log.info("this run does not wait for files, because it %s", request)
                return request, None
            landed = find_landed(pipeline, request.tables)
        except SluicegateError as error:
            raise failure(error) from None
        self.log.info(escape_text(landed.sentence))
        return request, landed.waiting

    @keep_failure_reason
    def resume(self, context: Context, event: Mapping[str, Any]) -> dict[str, int]:
        """End the task by the trigger's event.

        Raises:
            AirflowFailException: only a person can help.
            AirflowException: the definition has mistakes, which may be mended before the retry.
        """
        if "error" in event:
            facts = event.get("facts", {})
            raise create_exception(event["error"], facts, final=facts.get("code") != DefinitionError.code)
        self.log.info("waiting: %s files of %s bytes", event["found"]["files"], event["found"]["bytes"])
        return dict(event["found"])

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume after the deferral, by event or timeout; called by Airflow.

        At the timeout it checks once more itself: a triggerer that is down must not look like a quiet day.

        Raises:
            AirflowFailException: only a person can help, or files are late.
            AirflowSkipException: nothing arrived in time.
        """
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout:
            return self._end_at_timeout(context)

    def _expect_files(self, request: Request) -> None:
        """Fail if files are late; otherwise the run would end as skipped, as on a quiet day.

        Raises:
            AirflowFailException: a table expects files within a time span that is over.
        """
        from sluicegate.monitor import arrivals

        pipeline = load(self.pipeline, self.settings)
        error = arrivals.late_files_error(pipeline, pipeline.settings, datetime.now(UTC), request.tables)
        if error is not None:
            raise failure(error)

    @keep_failure_reason
    @provide_store
    def _end_at_timeout(self, context: Context) -> dict[str, int]:
        request, landed = self._find(context)
        waited = timedelta(seconds=self.timeout)
        if landed is None:
            self._expect_files(request)
            raise AirflowSkipException(f"no new data arrived within {waited}: the run has nothing to do")
        sentence = (
            "the triggerer reported no files within %s, but files are waiting: check that it is running and can read"
        )
        self.log.warning(f"{sentence} the landing folder. The run continues with them", waited)
        return {**landed, UNREPORTED: landed["files"]}


def _seconds(span: timedelta | float) -> float:
    if isinstance(span, timedelta):
        return span.total_seconds()
    return float(span)
