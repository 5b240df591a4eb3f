"""Submission of one job of a pipeline to Spark by a task, with its error as a sentence."""

from __future__ import annotations

import json
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from airflow.configuration import conf as airflow_conf
from airflow.providers.common.compat.openlineage.utils import spark as openlineage_spark
from airflow.sdk import Asset
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowException, AirflowRescheduleException

from sluicegate import console
from sluicegate.airflow.assets import job_assets, unreported_tables
from sluicegate.airflow.connect_server import OWN_JVM, ConnectServer
from sluicegate.airflow.connections import provide_store
from sluicegate.airflow.dags.arguments import job_pool
from sluicegate.airflow.job_process import JobProcess
from sluicegate.airflow.operators.links import SparkUI, is_address
from sluicegate.airflow.operators.spark_submission import SparkConnection, SparkSubmission
from sluicegate.airflow.reporting import metrics, openlineage
from sluicegate.airflow.reporting.failure_reason import keep_failure_reason
from sluicegate.airflow.run_request import failure, read_request, run_name
from sluicegate.channel import Channel
from sluicegate.definition import LAYERS, load
from sluicegate.errors import DamagedTable, SluicegateError
from sluicegate.escapes import escape_text
from sluicegate.flow.report import UNREPORTED, ReportLines
from sluicegate.launch.run_mode import RunMode
from sluicegate.settings import Settings
from sluicegate.spark import cluster, connect, java, spark_submit

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from sluicegate.definition import Layer, Pipeline
    from sluicegate.launch.discard import Discard
    from sluicegate.launch.request import Request

# Commit info: who runs it. `dag_run` and not `ds` or `logical_date`: a run that is triggered by hand or by an asset has
# no logical date, and then those names do not exist. `tojson` quotes whatever a person puts into a run id.
RUN_INFO = '{{ {"dag_id": dag_run.dag_id, "run_id": dag_run.run_id, "try": ti.try_number} | tojson }}'

# Reschedule delay of a task that found another run at work on its pipeline.
RESCHEDULE_AFTER = timedelta(seconds=20)


class SluicegateJob(SparkSubmission):
    """Runs one layer of a pipeline, or all in one, unless there is nothing to do: by spark-submit, or by this Python on
    the Spark Connect server that the connection names.

    What depends on the machine (jars, Java, class-data archive, connection) is looked up when the task runs.

    Args:
        pipeline: name of the pipeline.
        layer: bronze, silver or gold; ``run`` for all of them, one after another in one Spark.
        settings: where things are, as ``settings_below`` or ``Settings.of`` gives it; its master is used if there is no
            connection ``spark_default``; another ``conn_id`` has to be a connection.
        kwargs: what SparkSubmission takes, but for ``application``, ``application_args`` and ``name``. ``conf`` is
            merged into ours, and wins. By default the task is in the pool ``spark``, and its inlets and outlets are
            the assets of the tables.
    """

    # So that "Rendered Templates" shows the settings that Spark was started with.
    overwrite_rtif_after_execution = True
    operator_extra_links = (SparkUI(),)

    def __init__(self, *, pipeline: str, layer: Layer | Literal["run"], settings: Settings, **kwargs: Any) -> None:
        if layer == "run":
            self.layers: tuple[Layer, ...] = LAYERS
        else:
            self.layers = (layer,)
        super().__init__(
            application=str(spark_submit.job_file(layer)),
            application_args=spark_submit.job_arguments(pipeline, settings, ["--run-info", RUN_INFO]),
            name=spark_submit.job_name(layer, pipeline),
            **{**job_pool(), **self._tables(pipeline, settings, kwargs), **kwargs},
        )
        self.pipeline = pipeline
        self.layer = layer
        self.settings = settings
        self._said = ReportLines()
        self._channel = Channel()
        self._tail: deque[str] = deque(maxlen=8)
        self._lineage: OperatorLineage[Any, Any] | None = None
        self._show: Callable[[str], None] = lambda _: None
        self._server: ConnectServer | None = None
        self._connection = SparkConnection("")
        self._process: JobProcess | None = None
        self.logged_as = ""  # application id in Spark's event log

    def _tables(self, pipeline: str, settings: Settings, declared: Mapping[str, Any]) -> Mapping[str, Any]:
        """Inlets and outlets that a DAG of one's own does not declare."""
        if "inlets" in declared or not set(self.layers) <= set(LAYERS):
            return {}
        try:
            return job_assets(load(pipeline, settings), self.layers)
        except SluicegateError:  # which the task says; the DAG is to be seen all the same
            return {}

    @keep_failure_reason
    @provide_store
    def execute(self, context: Context) -> dict[str, Any] | list[dict[str, Any]] | None:
        """Run the job.

        Returns:
            the job's report, which becomes the task's XCom; of all layers a list, with the report of each; None when
            there was nothing to do.

        Raises:
            AirflowFailException: the user's mistake, or data that broke a rule; a retry would end the same way.
            AirflowException: anything else; a retry goes on where the last commit ended.
        """
        try:
            pipeline = load(self.pipeline, self.settings)
            request = self._read_request(pipeline, context)
            if reason := self._idle_reason(pipeline, request):
                self.log.info("%s %s; Spark was not started", self.name, escape_text(reason))
                self._publish(pipeline, context)
                return None
            if request is not None and request.discard is not None:
                self._discard(pipeline, request.discard, context)
                return None
            with exclude_other_runs(self.pipeline, self.settings, context):
                self.prepare(request)
                try:
                    self._submit(context)
                finally:
                    self._trace(pipeline, context)
            reports = self._report()
        except SluicegateError as error:
            raise failure(error) from None
        metrics.send_reports(reports)
        self._publish(pipeline, context)
        return reports

    def _discard(self, pipeline: Pipeline, discard: Discard, context: Context) -> None:
        """Discard records or undo discards as the user who triggered the run; a retry changes nothing twice."""
        from sluicegate.launch.discard import (
            find_records,  # not above: parsing a DAG file needs neither pyarrow nor deltalake
        )

        run = context["dag_run"]
        chosen = find_records(pipeline, discard)
        for line in chosen.sentences():
            self.log.info(escape_text(line))
        written = chosen.carry_out(run.triggering_user_name or "", run.run_id)
        self.log.info("%s rows %s", f"{written:,}", "wait again" if discard.undo else "discarded")

    def _read_request(self, pipeline: Pipeline, context: Context) -> Request | None:
        """Request of the run; None for jobs that it does not concern."""
        return read_request(pipeline, context)

    def _report(self) -> dict[str, Any] | list[dict[str, Any]] | None:
        """Report of the job, or of each layer that it ran."""
        reports = self._said.reports()
        if self.layer == "run":
            return reports
        if reports:
            return reports[-1]
        return None

    def _submit(self, context: Context) -> None:
        self._show = partial(context["ti"].xcom_push, SparkUI().xcom_key)
        self._channel = Channel()  # of this try
        with self._channel, self._program(context) as (command, env):
            self._process = JobProcess(command, env | self._channel.environment())
            try:
                self._log_output(self._process.output())
                code = self._process.wait_for_exit()
            finally:
                self._process.kill()
        if code:
            self._keep_reports(context)
            raise self._job_failure(code)
        if self._said.unread or not self._said.reports():
            self.log.warning(UNREPORTED)

    @contextmanager
    def _program(self, context: Context) -> Iterator[tuple[list[str], dict[str, str]]]:
        """Command and environment of the job: on a server, or by spark-submit."""
        of_user = {name: str(value) for name, value in self.env_vars.items()}
        if self._server is not None:
            settings = replace(self.settings, master=self._server.url)
            with self._server.environment() as token:
                env = spark_submit.job_env(self.layer, self.pipeline, settings)
                if token:
                    env.pop(connect.TOKEN, None)
                yield [sys.executable, self.application, *self.application_args], env | of_user | token
            return
        env = spark_submit.submit_env(self.layer) | of_user
        env.pop(connect.TOKEN, None)  # Spark refuses a job with a master that finds a server, too
        self._inject_lineage(context)
        with self._connection.keytab() as keytab:
            yield self.spark_submit_command(self._connection, keytab), env

    def _inject_lineage(self, context: Context) -> None:
        """Tell Spark's own OpenLineage listener of the task, where its arguments or Airflow's configuration say so."""
        if _is_injected(self.openlineage_inject_parent_job_info, "spark_inject_parent_job_info"):
            self.conf = openlineage_spark.inject_parent_job_information_into_spark_properties(self.conf, context)
        if _is_injected(self.openlineage_inject_transport_info, "spark_inject_transport_info"):
            self.conf = openlineage_spark.inject_transport_information_into_spark_properties(self.conf, context)

    def _keep_reports(self, context: Context) -> None:
        """Keep what the layers before did for the run's note, as where each has a task of its own."""
        if self.layer == "run" and (before := self._said.reports()):
            context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, before)

    def _trace(self, pipeline: Pipeline, context: Context) -> None:
        """Record the lineage for OpenLineage, where that is on.

        Here, since its listener asks in a fork of this process, which has none of the threads that delta-rs works in.
        """
        from sluicegate.lake.layout import Lake

        if not openlineage.is_enabled():
            return
        lake, run = Lake(self.settings.lake, pipeline.name), context["dag_run"].run_id
        try:
            self._lineage = openlineage.try_lineage(pipeline, lake, self.layers, run, context["ti"].try_number)
        except Exception:
            # The job's result stands, or its own error is the one to show.
            self.log.warning("the tables are not reported to OpenLineage", exc_info=True)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """Lineage, for Airflow's OpenLineage provider when a task has ended, well or not."""
        return self._lineage

    def _publish(self, pipeline: Pipeline, context: Context) -> None:
        """Add an outlet, and so an asset event, for each table that changed, and for no other."""
        from sluicegate.lake.layout import Lake

        def last_extra(about: Asset) -> dict[str, Any]:
            if about not in self.inlets:  # a table that the definition has had since the DAG was parsed
                return {}
            events = list(context["inlet_events"][about].ascending(False).limit(1))
            if events:
                return dict(events[0].extra or {})
            return {}

        lake = Lake(self.settings.lake, pipeline.name)
        # Airflow makes events for the outlets that a task has at its end.
        self.outlets = []
        for layer in self.layers:
            for about, extra in unreported_tables(lake, layer, pipeline.names(layer), last_extra):
                context["outlet_events"][about].extra = extra
                self.outlets.append(about)
                self.log.info("%s has a new version, %s", about.name, extra["version"])

    def _idle_reason(self, pipeline: Pipeline, request: Request | None) -> str:
        """Reason why there is nothing to do; empty if there is work."""
        from sluicegate.monitor.plan import pending  # not above: parsing a DAG file needs neither pyarrow nor deltalake

        if request is None:
            return ""
        if request.mode == RunMode.REPLAY and "gold" not in self.layers and "silver" not in self.layers:
            return "ingests nothing in a replay"
        if request.mode == RunMode.DISCARD:
            return "" if "silver" in self.layers else "changes nothing in a discard"
        if not any(request.names(pipeline, layer) for layer in self.layers):
            return "contains none of this run's tables"
        if request.reprocesses(self.layers):
            return ""
        try:
            waiting = pending(pipeline, self.settings).select_tables(request.includes)
        except DamagedTable:  # which the job may repair
            return ""
        if any(table.work for table in waiting.tables if table.layer in self.layers):
            return ""
        return "has nothing to do"

    def prepare(self, request: Request | None) -> None:
        """Fill in the arguments for the request, if there is one, and what depends on the machine.

        Raises:
            JavaMissing: no Java 17 or newer, no pyspark, or no jars.
            UserError: the connection is no address of a server.
        """
        if request is not None:
            self.application_args = [*self.application_args, *request.arguments(self.layer)]
            if request.replays(self.layer):
                self.application = str(spark_submit.job_file("replay"))
        if (server := ConnectServer.from_connection(self.conn_id, self.settings)) is not None:
            settings = replace(self.settings, master=server.url)
            if spark_submit.is_of_server(self.layer, self.pipeline, settings):
                self._server = server
                return
            # It looks into a JVM of its own, and has one beside this task.
            self.conn_id, self.settings = OWN_JVM, spark_submit.spark_submit_settings(settings)
        java.java_version(java.java())
        self._connection = SparkConnection.from_airflow(self.conn_id, self.settings.master)
        self.log.info("connection %s: the master is %s", self.conn_id, self._connection.master)
        settings = replace(self.settings, master=self._connection.master)
        self.conf = spark_submit.job_conf(self.layer, settings) | self.conf
        if file := cluster.properties_file():
            self.options = {"properties-file": str(file)} | self.options
        # By its path: the spark-submit first on PATH may be of another Spark.
        self.spark_binary = self.spark_binary or str(java.spark_home() / "bin" / "spark-submit")

    def _log_output(self, output: Iterable[str]) -> None:
        """Pass the job's output on to the task's log; keep its messages, and its last lines."""
        for line in self._channel.lines(output, self._take_message):
            self._tail.append(line)
            self.log.info(line)

    def _take_message(self, message: str) -> None:
        if self._said.take(message):
            return
        kind, _, text = message.partition(" ")
        try:
            fact = str(json.loads(text))
        except ValueError:  # a link less
            return
        if kind == console.PAGE and is_address(fact):
            self._show(fact)
        elif kind == console.LOGGED:
            self.logged_as = fact

    def _job_failure(self, code: int) -> AirflowException:
        error = self._said.error
        if error is not None and error.exit_code == code:
            return failure(error)
        ended = f"the {self.layer} job of {self.pipeline} {_describe_exit(code)}"
        if error is not None:  # and was then killed: a retry need not end the same way
            return AirflowException(f"{ended}, after this:\n{error.for_people()}")
        output = "".join(f"\n    {line}" for line in self._tail)
        return AirflowException(f"{ended}; its last output:{output}")

    def on_kill(self) -> None:
        """Kill the job with the JVM and the Python that it started."""
        if self._process is not None:
            self._process.kill()


def _is_injected(argument: bool | None, option: str) -> bool:
    """Return what an argument says, or else Airflow's configuration of OpenLineage."""
    if argument is None:
        return bool(airflow_conf.getboolean("openlineage", option, fallback=False))
    return argument


def _describe_exit(code: int) -> str:
    """Words for an exit code that no job of ours ends with by itself; a shell says 128 and the signal."""
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "was killed (SIGKILL), most often for lack of memory"
    return f"ended with exit code {code}"


@contextmanager
def exclude_other_runs(pipeline: str, settings: Settings, context: Context) -> Iterator[None]:
    """Context in which no other run works on the pipeline: a backfill, a scheduled run, or the command line's.

    The jobs take the pipeline's lock themselves; but a job that waits for it holds a worker and a JVM.

    Raises:
        AirflowRescheduleException: another is at work; the task is rescheduled, which uses none of its retries.
    """
    from sluicegate.lake.exclusion.lock import turn
    from sluicegate.lake.layout import Lake

    with turn(Lake(settings.lake, pipeline), run_name(context)) as holder:
        if holder is not None:
            sentence = "%s is working on pipeline %s; this task is rescheduled until it ends"
            context["task"].log.info(sentence, holder, pipeline)
            raise AirflowRescheduleException(datetime.now(UTC) + RESCHEDULE_AFTER)  # type: ignore[no-untyped-call]
        yield
