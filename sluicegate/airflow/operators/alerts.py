"""Task that looks at the limits of a definition, whether runs start or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from sluicegate.airflow.connections import provide_store
from sluicegate.airflow.reporting.task_alerts import ERROR, TaskError
from sluicegate.airflow.run_request import failure
from sluicegate.definition import load
from sluicegate.definition.pipeline.alerts import AlertLevel
from sluicegate.errors import SluicegateError
from sluicegate.escapes import escape_text

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.bases.notifier import BaseNotifier

    from sluicegate.monitor.alerts import Alert
    from sluicegate.settings import Settings

STATE = "alerts"
"""Key of what was told, for the next run of the DAG."""

Notified = Mapping[str, Mapping[str, str]]
"""By what an alert is about: its ``level``, and ``at`` which time it was told."""


class CheckAlerts(BaseOperator):
    """Compares a pipeline with its limits; fails for what is beyond one and was not told before. No Spark.

    Args:
        pipeline: name of the pipeline.
        settings: where things are.
        warned: notifiers of what is beyond a limit ``warn``.
        kwargs: what every operator takes.
    """

    def __init__(
        self, *, pipeline: str, settings: Settings, warned: Sequence[BaseNotifier] = (), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.settings = settings
        self.warned = list(warned)

    @provide_store
    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Look at all limits.

        Returns:
            all of them, with what there is.

        Raises:
            AirflowFailException: something is beyond a limit ``fail`` that was not told yet, or not for long.
            AirflowSkipException: all that is beyond such a limit was told.
            AirflowException: the tables cannot be read.
        """
        from sluicegate.monitor import alerts

        time = datetime.now(UTC)
        try:
            pipeline = load(self.pipeline, self.settings)
            current = alerts.evaluate(pipeline, pipeline.settings, time)
        except SluicegateError as error:
            raise failure(error) from None
        remind_after = (pipeline.alerts.remind_after if pipeline.alerts else None) or alerts.DAY
        new, notified = alerts_to_report(current, self._previous_notifications(context), time, remind_after)
        context["ti"].xcom_push(STATE, notified)
        for alert in current:
            self.log.info("%s: %s", alert.level, escape_text(alert.sentence))
        for alert in new:
            if alert.level == AlertLevel.WARN:
                self._warn(alert, context)
        beyond = alerts.alerts_error(current)
        if beyond is not None and any(alert.level == AlertLevel.FAIL for alert in new):
            raise failure(beyond)
        if beyond is not None:
            raise AirflowSkipException(f"reported before: {beyond.message}")
        return [asdict(alert) for alert in current]

    def _previous_notifications(self, context: Context) -> Notified:
        """What the run before has told, by its own clock: that of a run by hand is not known."""
        states = context["ti"].xcom_pull(task_ids=self.task_id, key=STATE, include_prior_dates=True, map_indexes=-1)
        if isinstance(states, Mapping):
            return states
        return {}

    def _warn(self, alert: Alert, context: Context) -> None:
        sentence = escape_text(alert.sentence)
        about = TaskError(sentence, "", "", sentence, getattr(context["ti"], "log_url", ""))
        for notifier in self.warned:
            notifier({**context, ERROR: about})


def alerts_to_report(
    current: Sequence[Alert], notified: Notified, time: datetime, remind_after: timedelta
) -> tuple[list[Alert], dict[str, dict[str, str]]]:
    """Alerts to report now, and all that are reported after that.

    Args:
        current: all alerts.
        notified: what was told before.
        time: the time.
        remind_after: time span after which one that stays is told once more.
    """
    new: list[Alert] = []
    state: dict[str, dict[str, str]] = {}
    for alert in current:
        if alert.level == AlertLevel.OK:
            continue
        before = notified.get(alert.subject, {})
        if before.get("level") == alert.level and time - datetime.fromisoformat(before["at"]) < remind_after:
            state[alert.subject] = dict(before)
        else:
            new.append(alert)
            state[alert.subject] = {"level": str(alert.level), "at": time.isoformat()}
    return new, state
