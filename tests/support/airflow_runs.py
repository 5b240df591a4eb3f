"""What Airflow gives to a task in each kind of run, made by Airflow's own code; no Airflow need be running."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

# 15 minutes of a schedule, as a run has them whose interval is over.
FIRST, LAST = datetime(2026, 11, 21, 11, 30, tzinfo=UTC), datetime(2026, 11, 21, 11, 45, tzinfo=UTC)


def context_of(
    task: Any,
    kind: str = "scheduled",
    form: dict[str, Any] | None = None,
    *,
    dated: bool = True,
    interval: tuple[datetime, datetime] = (FIRST, LAST),
    run_id: str | None = None,
    attempt: int = 1,
) -> Any:
    """The context of a task; its params are checked and put together by Airflow.

    Args:
        task: a task of a DAG.
        kind: ``scheduled``, ``manual``, ``backfill``, ``asset_triggered``…
        form: what a person filled in, or a REST client sent.
        dated: whether the run has a logical date, and with it a data interval.
        interval: that interval.
        run_id: the run's id, of its usual shape by default.
        attempt: number of the try.
    """
    from airflow.sdk.api.datamodels._generated import DagRun, TIRunContext
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    since, until = interval if dated else (None, None)
    run = DagRun(
        dag_id=task.dag_id, run_id=run_id or f"{kind}__{LAST.isoformat()}", run_type=kind, state="running",
        logical_date=since, data_interval_start=since, data_interval_end=until, run_after=LAST,
        start_date=LAST, end_date=None, conf=form, consumed_asset_events=[], partition_key=None,
    )  # fmt: skip
    instance = RuntimeTaskInstance.model_construct(
        id=UUID(int=1), task_id=task.task_id, dag_id=task.dag_id, run_id=run.run_id, try_number=attempt, map_index=-1,
        task=task, start_date=datetime.now(UTC), max_tries=3,
        _ti_context_from_server=TIRunContext(dag_run=run, max_tries=3),
    )  # fmt: skip
    return instance.get_template_context()


def submitted_command(job: Any) -> list[str]:
    """The command by which a job that is prepared would be submitted."""
    from sluicegate.airflow.operators.spark_submission import SparkConnection

    connection = SparkConnection.from_airflow(job.conn_id, job.settings.master)
    with connection.keytab() as keytab:
        return list(job.spark_submit_command(connection, keytab))
