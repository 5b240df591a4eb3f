"""Arguments of DAGs and tasks: ours, those of the DAG file, which come before ours, and those of a definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from inspect import signature
from typing import Any

from airflow.sdk import DAG, BaseOperator

from sluicegate.airflow.loaded import plugin_is_loaded
from sluicegate.airflow.operators.spark_submission import SparkSubmission
from sluicegate.definition.fields import suggest_name
from sluicegate.definition.pipeline.airflow import AirflowSettings
from sluicegate.definition.reading import loader
from sluicegate.errors import DefinitionError, Mistake, UserError
from sluicegate.settings import Settings

POOL = "spark"
"""Pool of the jobs, which ``airflow.pools`` makes when Airflow starts, where there is none."""

ENDS_WITHIN = timedelta(hours=2)

# For jobs: what a retry cannot change fails at once (see ``run_request.failure``). The rest are conflicts with another
# writer, lost executors, a full disk, a network outage: the longer it lasts, the longer the delay.
RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": 3.0,
    "max_retry_delay": timedelta(minutes=10),
}
# For tasks that only read.
READ_RETRIES: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=30)}

# Arguments without which a task or a DAG would not be the pipeline's.
OF_TASKS = {"task_id", "dag", "task_group", "doc_md", "inlets", "outlets", "params", "trigger_rule",
            "application", "application_args", "name"}  # fmt: skip
OF_DAGS = {"dag_id", "schedule", "description", "doc_md", "params", "catchup", "fail_fast", "auto_register"}

_OF_JOBS = ("conn_id", "pool", "pool_slots", "queue", "retries", "retry_delay", "max_retry_delay")


@dataclass(frozen=True)
class Arguments:
    """Arguments that a DAG file sets for all its DAGs and tasks.

    Attributes:
        tasks: arguments of tasks; what only SparkSubmission takes is for the jobs.
        dags: arguments of DAGs.
    """

    tasks: Mapping[str, Any] = field(default_factory=dict)
    dags: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dag_file(cls, tasks: Mapping[str, Any] | None, dags: Mapping[str, Any] | None) -> Arguments:
        """Return the arguments, if a DAG file may set them.

        Raises:
            UserError: one is unknown, or is not the DAG file's to give.
        """
        of_operators = _accepted_parameters(BaseOperator) | _accepted_parameters(SparkSubmission)
        _check("task_args", tasks or {}, of_operators, OF_TASKS)
        _check("dag_args", dags or {}, _accepted_parameters(DAG), OF_DAGS)
        # Airflow would put ours before these, as arguments of a task come before defaults of its DAG.
        defaults = (dags or {}).get("default_args") or {}
        of_ours = {name: defaults[name] for name in (*RETRIES, "pool", "execution_timeout") if name in defaults}
        return cls({**of_ours, **(tasks or {})}, dict(dags or {}))

    def reader_arguments(self, definition: AirflowSettings | None) -> dict[str, Any]:
        """Return the arguments of a task that starts no Spark.

        They have no time limit, which would include the wait for a person or for files.
        """
        return READ_RETRIES | self._common_arguments() | _weight(definition)

    def mistakes_arguments(self) -> dict[str, Any]:
        """Return the arguments of a task that fails in place of any other: its queue, and the retries of a job."""
        return _delays(self.tasks) | self._common_arguments()

    def _common_arguments(self) -> dict[str, Any]:
        """Return the DAG file's arguments for every task, without a time limit, even one of ``default_args``."""
        of_all = _accepted_parameters(BaseOperator)
        return {name: it for name, it in self.tasks.items() if name in of_all} | {"execution_timeout": None}

    def job_arguments(
        self, name: str, definition: AirflowSettings | None, settings: Settings, layers: int = 1
    ) -> dict[str, Any]:
        """Return the arguments of a task that starts Spark.

        Args:
            name: name of the pipeline.
            definition: Airflow settings of the definition.
            settings: configuration with the definitions' folder.
            layers: number of layers that the task runs, each of which has its own time limit.

        Raises:
            DefinitionError: the executor's configuration cannot be used.
        """
        of_pipeline = definition or AirflowSettings()
        of_definition = {
            field: getattr(of_pipeline, field) for field in _OF_JOBS if getattr(of_pipeline, field) is not None
        }
        if of_pipeline.executor_config:
            of_definition["executor_config"] = _executor_config(name, of_pipeline.executor_config, settings)
        limit = self.time_limit(definition)
        arguments = {**job_pool(), **self.tasks, **of_definition, **_weight(definition)}
        return _delays(arguments) | arguments | {"execution_timeout": limit * layers if limit else None}

    def add_alerts(self, arguments: Mapping[str, Any], alerts: Sequence[Any]) -> dict[str, Any]:
        """Add alerts of a task's failure to those of its arguments or the DAG file."""
        if not alerts:
            return dict(arguments)
        of_all = (self.dags.get("default_args") or {}).get("on_failure_callback")
        callbacks = _as_list(arguments.get("on_failure_callback", of_all))
        return {**arguments, "on_failure_callback": [*callbacks, *alerts]}

    def time_limit(self, definition: AirflowSettings | None) -> timedelta | None:
        """Return the time limit of a job, None where the DAG file sets None."""
        if definition is not None and definition.execution_timeout is not None:
            return definition.execution_timeout
        ends_within: timedelta | None = self.tasks.get("execution_timeout", ENDS_WITHIN)
        return ends_within

    def dag_arguments(self, of_pipeline: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a DAG; its definition's come before the DAG file's.

        Tags, callbacks and ``default_args`` of both are combined.

        Args:
            of_pipeline: arguments from the pipeline's definition.
        """
        both = {**self.dags, **of_pipeline}
        for name in ("on_failure_callback", "on_success_callback"):
            if of_both := [*_as_list(self.dags.get(name)), *_as_list(of_pipeline.get(name))]:
                both[name] = of_both
        if tags := [*(self.dags.get("tags") or ()), *(of_pipeline.get("tags") or ())]:
            both["tags"] = tags
        defaults = {**(self.dags.get("default_args") or {}), **(of_pipeline.get("default_args") or {})}
        return both | {"default_args": defaults}


def _accepted_parameters(kind: type) -> set[str]:
    return set(signature(kind.__init__).parameters) - {"self", "kwargs", "args"}  # type: ignore[misc]


def _check(where: str, arguments: Mapping[str, Any], accepted: set[str], reserved: set[str]) -> None:
    for name in arguments:
        if name in reserved:
            raise UserError(f"{where} sets {name}, which Sluicegate sets for each pipeline", hint="remove it")
        if name not in accepted:
            hint = (
                suggest_name(name, accepted - reserved) or "see the parameters of SparkSubmission, BaseOperator and DAG"
            )
            raise UserError(f"{where} sets {name}, which Sluicegate's tasks and DAGs do not accept", hint=hint)


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    if value is None:
        return []
    return [value]


def job_pool() -> dict[str, str]:
    """Return the pool of the jobs, or nothing without the plugin: a task with a missing pool never starts."""
    if plugin_is_loaded():
        return {"pool": POOL}
    return {}


def _delays(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the retries of a job, with delays no shorter than the first delay of its arguments."""
    first = arguments.get("retry_delay", RETRIES["retry_delay"])
    if not isinstance(first, timedelta):
        first = timedelta(seconds=first)
    return RETRIES | {"max_retry_delay": max(first, RETRIES["max_retry_delay"])}


def _weight(definition: AirflowSettings | None) -> dict[str, Any]:
    if definition is None or definition.priority_weight is None:
        return {}
    return {"priority_weight": definition.priority_weight}


def _executor_config(name: str, config: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the executor's configuration, with Kubernetes' pod as the object that the executor requires.

    Raises:
        DefinitionError: Airflow's provider for Kubernetes is not installed, or the pod is none.
    """
    if not isinstance(config.get("pod_override"), dict):
        return dict(config)
    try:
        from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator

        return {**config, "pod_override": PodGenerator.deserialize_model_dict(config["pod_override"])}
    except (ImportError, ValueError, TypeError, AttributeError) as error:
        file = str(settings.pipelines / name / loader.FILE)
        hint = "install apache-airflow-providers-cncf-kubernetes where DAGs are parsed and tasks run"
        sentence = f"pod_override cannot be used: {error}"
        mistake = Mistake("executor-config", "airflow.executor_config", sentence, file, None, hint)
        raise DefinitionError(name, [mistake]) from error
