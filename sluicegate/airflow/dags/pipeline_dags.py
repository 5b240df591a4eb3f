"""DAGs of one definition: that of its runs, and those of maintenance, verification and alerts, if it asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal

from airflow.sdk import DAG, BaseOperator, chain

from sluicegate import definition
from sluicegate.airflow.assets import job_assets, landing_asset
from sluicegate.airflow.dags import doc_md
from sluicegate.airflow.dags.arguments import Arguments
from sluicegate.airflow.dags.new_dag import files_timeout, new_dag
from sluicegate.airflow.dags.params import form, form_of_verification
from sluicegate.airflow.operators.alerts import CheckAlerts
from sluicegate.airflow.operators.check_request import CheckRequest
from sluicegate.airflow.operators.maintenance import Catalog, Maintenance, Verification
from sluicegate.airflow.operators.reconcile import Account
from sluicegate.airflow.operators.submit import SluicegateJob
from sluicegate.airflow.reporting.notifiers import callbacks, task_alerts, warning_notifiers
from sluicegate.airflow.sensors.landed_files import LandedFilesSensor
from sluicegate.definition.dag_ids import dag_id
from sluicegate.definition.pipeline.airflow import AirflowSettings
from sluicegate.spark import metastore


class PipelineDags:
    """DAGs of a pipeline.

    Args:
        pipeline: its definition.
        arguments: what the DAG file gives to all DAGs and tasks.

    Raises:
        DefinitionError: a notifier of its tasks cannot be used.
    """

    def __init__(self, pipeline: definition.Pipeline, arguments: Arguments) -> None:
        self.pipeline = pipeline
        self.settings = pipeline.settings
        self.arguments = arguments
        self._alerts = task_alerts(pipeline.name, pipeline.notify, pipeline.settings)
        self._subject: dict[str, Any] = {"pipeline": pipeline.name, "settings": pipeline.settings}

    def all_dags(self) -> Iterator[DAG]:
        """Yield the DAGs for runs, and for maintenance, alerts and verification if they are defined.

        Raises:
            DefinitionError: a notifier, or the configuration of an executor, cannot be used.
        """
        yield self.runs()
        if self.pipeline.maintenance is not None:
            yield self._maintenance(self.pipeline.maintenance.schedule)
        if self.pipeline.alerts is not None:
            yield self._alerting(self.pipeline.alerts.schedule)
        if self.pipeline.verify is not None:
            yield self._verification(self.pipeline.verify.schedule, self.pipeline.verify.percent)

    def runs(self) -> DAG:
        """Return the DAG for runs, with its tasks one after another.

        The tasks are a check of the request, a sensor for landed files, a job for each layer that has tables (or one
        for all layers, if the definition says so), and the reconciliation.
        """
        dag_arguments: dict[str, Any] = {"doc_md": doc_md.describe_dag(self.pipeline), "params": form(self.pipeline)}
        for name in ("max_active_runs", "max_backfill_runs"):
            if (value := getattr(self.pipeline.airflow, name, None)) is not None:
                dag_arguments[name] = value
        landed = None
        if self.pipeline.trigger:
            landed = landing_asset(self.pipeline.name, self.pipeline.queueUrl, self.settings)
        about = self._dag(self.pipeline.description, dag_arguments)
        with new_dag(dag_id(self.pipeline.name), self.pipeline.schedule, landed, **about) as dag:
            chain(*self._tasks())
        return dag

    def _maintenance(self, schedule: str | None) -> DAG:
        about = self._dag(f"Maintains the tables of {self.pipeline.name}.", {"doc_md": doc_md.MAINTENANCE})
        with new_dag(dag_id(self.pipeline.name, "maintenance"), schedule, **about) as dag:
            Maintenance(task_id="maintain", doc_md=doc_md.MAINTENANCE, **self._subject, **self._job_arguments())
        return dag

    def _verification(self, schedule: str | None, percent: float) -> DAG:
        dag_arguments = {"doc_md": doc_md.VERIFY, "params": form_of_verification()}
        about = self._dag(f"Verifies the tables of {self.pipeline.name}.", dag_arguments)
        with new_dag(dag_id(self.pipeline.name, "verify"), schedule, **about) as dag:
            Verification(
                task_id="verify", doc_md=doc_md.VERIFY, percent=percent, **self._subject, **self._job_arguments()
            )  # fmt: skip
        return dag

    def _alerting(self, schedule: str) -> DAG:
        about = self._dag(
            f"Compares {self.pipeline.name} with its alert limits.", {"doc_md": doc_md.ALERTS, "max_active_runs": 1}
        )
        reader = self.arguments.add_alerts(self.arguments.reader_arguments(self.pipeline.airflow), self._alerts)
        warned = warning_notifiers(self.pipeline.name, self.pipeline.notify, self.settings)
        with new_dag(dag_id(self.pipeline.name, "alerts"), schedule, **about) as dag:
            CheckAlerts(task_id="alerts", doc_md=doc_md.ALERTS, warned=warned, **self._subject, **reader)
        return dag

    def _dag(self, description: str, dag_arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a DAG, with those common to all DAGs of the pipeline."""
        common = {"tags": self.pipeline.tags, "default_args": {"owner": self.pipeline.owner}}
        notified = callbacks(self.pipeline.name, self.pipeline.notify, self.settings)
        return self.arguments.dag_arguments({"description": description, **dag_arguments, **common, **notified})

    def _job_arguments(self, layers: int = 1) -> dict[str, Any]:
        job_arguments = self.arguments.job_arguments(self.pipeline.name, self.pipeline.airflow, self.settings, layers)
        return self.arguments.add_alerts(job_arguments, self._alerts)

    def _tasks(self) -> Iterator[BaseOperator]:
        """Yield the tasks of the DAG in context, in order."""
        pipeline = self.pipeline
        reader = self.arguments.add_alerts(self.arguments.reader_arguments(pipeline.airflow), self._alerts)
        of_airflow = pipeline.airflow or AirflowSettings()
        yield CheckRequest(
            task_id="check_request", doc_md=doc_md.CHECK, approvers=of_airflow.approvers, **self._subject, **reader
        )
        # An event-driven run need not wait for files: it would wait on beside each later run that an event starts.
        wait: timedelta | None = timedelta(0)
        if not pipeline.trigger:
            wait = of_airflow.wait
        if wait is None:
            wait = files_timeout(pipeline.schedule)
        yield LandedFilesSensor(task_id="wait_for_files", doc_md=doc_md.WAIT, timeout=wait, **self._subject, **reader)
        layers = [layer for layer in definition.LAYERS if getattr(pipeline, layer)]
        if layers and pipeline.tasks == "run":
            yield self._job("run", layers, doc_md.describe_run(pipeline))
        else:
            for layer in layers:
                yield self._job(layer, [layer], doc_md.describe_layer(pipeline, layer))
        if metastore.address():
            yield Catalog(task_id="catalog", doc_md=doc_md.CATALOG, **self._subject, **self._job_arguments())
        limited = reader | {"execution_timeout": self.arguments.time_limit(pipeline.airflow)}
        yield Account(task_id="account", doc_md=doc_md.RECONCILIATION, **self._subject, **limited)

    def _job(self, job: definition.Layer | Literal["run"], layers: list[definition.Layer], about: str) -> SluicegateJob:
        """Return the task of a layer, or of all of them."""
        arguments = job_assets(self.pipeline, layers) | self._subject | self._job_arguments(len(layers))
        return SluicegateJob(task_id=job, doc_md=about, layer=job, **arguments)
