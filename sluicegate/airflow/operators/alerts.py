"""Task that looks at the limits of a definition, whether runs start or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from sluicegate.airflow.connections import with_store
from sluicegate.airflow.run_request import failure
from sluicegate.airflow.task_alerts import ERROR, TaskError
from sluicegate.definition import load
from sluicegate.errors import SluicegateError
from sluicegate.escapes import escaped

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

    @with_store
    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Looks at all limits.

        Returns:
            all of them, with what there is.

        Raises:
            AirflowFailException: something is beyond a limit ``fail`` that was not told yet, or not for long.
            AirflowSkipException: all that is beyond such a limit was told.
            AirflowException: the tables cannot be read.
        """
        from sluicegate.monitor import alerts

        now = datetime.now(UTC)
        try:
            pipeline = load(self.pipeline, self.settings)
            found = alerts.evaluate(pipeline, pipeline.settings, now)
        except SluicegateError as error:
            raise failure(error) from None
        remind_after = (pipeline.alerts.remind_after if pipeline.alerts else None) or alerts.DAY
        new, notified = news(found, self._notified(context), now, remind_after)
        context["ti"].xcom_push(STATE, notified)
        for one in found:
            self.log.info("%s: %s", one.level, escaped(one.sentence))
        for one in new:
            if one.level == "warn":
                self._warn(one, context)
        beyond = alerts.failed(found)
        if beyond is not None and any(one.level == "fail" for one in new):
            raise failure(beyond)
        if beyond is not None:
            raise AirflowSkipException(f"reported before: {beyond.message}")
        return [asdict(one) for one in found]

    def _notified(self, context: Context) -> Notified:
        """What the run before has told, by its own clock: that of a run by hand is not known."""
        found = context["ti"].xcom_pull(task_ids=self.task_id, key=STATE, include_prior_dates=True, map_indexes=-1)
        return found if isinstance(found, Mapping) else {}

    def _warn(self, alert: Alert, context: Context) -> None:
        sentence = escaped(alert.sentence)
        about = TaskError(sentence, "", "", sentence, getattr(context["ti"], "log_url", ""))
        for notifier in self.warned:
            notifier({**context, ERROR: about})


def news(
    found: Sequence[Alert], notified: Notified, now: datetime, remind_after: timedelta
) -> tuple[list[Alert], dict[str, dict[str, str]]]:
    """Alerts to tell, and what will have been told then.

    Args:
        found: all alerts.
        notified: what was told before.
        now: the time.
        remind_after: time span after which one that stays is told once more.
    """
    new: list[Alert] = []
    state: dict[str, dict[str, str]] = {}
    for one in found:
        if one.level == "ok":
            continue
        before = notified.get(one.about, {})
        if before.get("level") == one.level and now - datetime.fromisoformat(before["at"]) < remind_after:
            state[one.about] = dict(before)
        else:
            new.append(one)
            state[one.about] = {"level": one.level, "at": now.isoformat()}
    return new, state
