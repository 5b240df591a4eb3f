"""Model of what a pipeline's DAGs and tasks are like in Airflow."""

from __future__ import annotations

from pydantic import Field, field_validator

from sluicegate.definition.fields import Duration, Names, Part, field_error
from sluicegate.definition.pipeline.notify import WithoutSecrets

# What the columns of Airflow's database hold: with more, its scheduler ends with an error at each run that it makes.
LONGEST = 250
MOST = 1_000_000


class AirflowSettings(Part):
    """What the DAGs and tasks of a pipeline are like in Airflow. What is not said here is as the DAG file says it.

    Jobs are the tasks that start Spark: those of the layers, of maintenance, verification and the catalog.

    Attributes:
        conn_id: connection of the jobs, which names their Spark master; ``spark_default`` by default.
        pool: pool of the jobs; ``spark`` by default, which Airflow's start makes where there is none.
        pool_slots: slots of the pool that each job takes.
        queue: queue of the jobs, as of a Celery worker that has Java.
        executor_config: configuration of the executor for the jobs, such as ``pod_override`` of Kubernetes.
        execution_timeout: time limit of a job, for each layer that it runs; 2 hours by default.
        retries: retries of the jobs; 3 by default.
        retry_delay: delay before the first retry of a job, which grows with each; 30 seconds by default.
        max_retry_delay: longest delay before a retry of a job; 10 minutes by default.
        priority_weight: weight of all its tasks where tasks wait for slots: the greater goes first.
        max_active_runs: runs that may be under way, besides those of a backfill; 3 by default.
        max_backfill_runs: runs that a backfill has at most, each of several intervals of the schedule where there are
            more; 31 by default.
        wait: how long a run of the schedule waits for files; until the next one by default, at most a day. With
            0 minutes it checks once.
        approvers: ids of the users who may approve a full refresh; without them everybody who may edit the run.
    """

    conn_id: str | None = Field(default=None, min_length=1, max_length=LONGEST)
    pool: str | None = Field(default=None, min_length=1, max_length=LONGEST)
    pool_slots: int | None = Field(default=None, ge=1, le=MOST)
    queue: str | None = Field(default=None, min_length=1, max_length=LONGEST)
    executor_config: WithoutSecrets = {}
    execution_timeout: Duration | None = None
    retries: int | None = Field(default=None, ge=0, le=MOST)
    retry_delay: Duration | None = None
    max_retry_delay: Duration | None = None
    priority_weight: int | None = Field(default=None, ge=-MOST, le=MOST)  # Airflow adds up those of all tasks
    max_active_runs: int | None = Field(default=None, ge=1, le=MOST)
    max_backfill_runs: int | None = Field(default=None, ge=1)
    wait: Duration | None = None
    approvers: Names = []

    @field_validator("execution_timeout", "retry_delay", "max_retry_delay")
    @classmethod
    def _check_span(cls, span: Duration | None) -> Duration | None:
        if span is not None and not span:
            message = "a duration of 0 would end or retry a task at once"
            raise field_error("time-span", message, "for example 30 minutes")
        return span

    @field_validator("approvers")
    @classmethod
    def _check_approvers(cls, approvers: list[str]) -> list[str]:
        if not all(approver.strip() for approver in approvers):
            raise field_error("name", "a user id must not be empty")
        return approvers
