"""Submission of one job of a pipeline to Spark by a task, with its error as a sentence."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import psutil  # type: ignore[import-untyped]
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, Connection
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException, AirflowRescheduleException

from sluicegate import console
from sluicegate.airflow.assets import job_assets, unreported_tables
from sluicegate.airflow.connect_server import OWN_JVM, Client, ConnectServer
from sluicegate.airflow.connections import environment, provide_store
from sluicegate.airflow.dags.arguments import job_pool
from sluicegate.airflow.operators.links import SparkUI, is_address
from sluicegate.airflow.reporting import metrics, openlineage
from sluicegate.airflow.reporting.failure_reason import keep_failure_reason
from sluicegate.airflow.run_request import failure, read_request, run_name
from sluicegate.channel import Channel
from sluicegate.definition import LAYERS, load
from sluicegate.errors import DamagedTable, SluicegateError, UserError
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


class SluicegateJob(SparkSubmitOperator):
    """Runs one layer of a pipeline, or all in one, unless there is nothing to do: by spark-submit, or by this Python on
    the Spark Connect server that the connection names.

    What depends on the machine (jars, Java, class-data archive, connection) is looked up when the task runs.

    Args:
        pipeline: name of the pipeline.
        layer: bronze, silver or gold; ``run`` for all of them, one after another in one Spark.
        settings: where things are, as ``settings_below`` or ``Settings.of`` gives it; its master is used if there is no
            connection ``conn_id`` (``spark_default``).
        kwargs: what SparkSubmitOperator takes, but for ``application``, ``application_args`` and ``name``. ``conf`` is
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
        self._client: Client | None = None
        self._hidden: dict[str, str] = {}  # variables that its process is not to have
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
    def execute(self, context: Context) -> dict[str, Any] | list[dict[str, Any]] | None:  # type: ignore[override]
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
        with self._channel:
            if self._server is not None:
                self._run_on_server(self._server, context)
            else:
                self._spark_submit(context)
        if self._said.unread or not self._said.reports():
            self.log.warning(UNREPORTED)

    def _spark_submit(self, context: Context) -> None:
        try:
            # Not by `env_vars`: the provider passes them to pods and to YARN's own process, but not to a local driver.
            # Spark refuses a job with a master where it finds the address of a server as well.
            without = dict.fromkeys({connect.REMOTE, connect.TOKEN, *spark_submit.withheld_variables(self.layer)}, "")
            self._hook = self._get_hook()  # before: it may read the connection from the environment
            with environment(
                spark_submit.submit_env(self.layer) | without | self._hidden | self._channel.environment()
            ):
                super().execute(context)
        except AirflowException:
            self._keep_reports(context)
            # Its message is the whole command line; the reason is far below it.
            if self._hook is None or self._hook._submit_sp is None:
                raise
            raise self._job_failure(self._hook._submit_sp.returncode) from None

    def _keep_reports(self, context: Context) -> None:
        """Keep what the layers before did for the run's note, as where each has a task of its own."""
        if self.layer == "run" and (before := self._said.reports()):
            context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, before)

    def _run_on_server(self, server: ConnectServer, context: Context) -> None:
        """Run the job on a server, and pass its output on as the provider's hook does."""
        settings = replace(self.settings, master=server.url)
        command = [sys.executable, str(self.application), *(str(argument) for argument in self.application_args or ())]
        with server.environment() as token:
            env = spark_submit.job_env(self.layer, self.pipeline, settings)
            if token:
                env.pop(connect.TOKEN, None)
            env.pop(_variable(self._conn_id), None)  # which has the token where the connection is made by it
            self._client = Client(command, env | token | self._channel.environment())
            try:
                self._log_output(self._client.output())
                code = self._client.wait_for_exit()
            finally:
                self._client.kill()
        if code:
            self._keep_reports(context)
            raise self._job_failure(code)

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
            UserError: the connection asks for cluster deploy mode, or is no address of a server.
        """
        requested = request.arguments(self.layer) if request else ()
        if request and request.replays(self.layer):
            self.application = str(spark_submit.job_file("replay"))
        self.application_args = [*(self.application_args or ()), *requested]
        if (server := ConnectServer.from_connection(self._conn_id, self.settings)) is not None:
            settings = replace(self.settings, master=server.url)
            if spark_submit.is_of_server(self.layer, self.pipeline, settings):
                self._server = server
                return
            # It looks into a JVM of its own, and has one beside this task.
            self._hidden = {_variable(self._conn_id): ""}
            self._conn_id, self.settings = OWN_JVM, spark_submit.spark_submit_settings(settings)
        java.java_version(java.java())
        self.conf = spark_submit.job_conf(self.layer, replace(self.settings, master=self._master())) | (self.conf or {})
        if file := cluster.properties_file():
            self.properties_file = self.properties_file or str(file)
        # By its path: the spark-submit first on PATH may be of another Spark.
        self._spark_binary = self._spark_binary or str(java.spark_home() / "bin" / "spark-submit")

    def _master(self) -> str:
        """Master of the job, made from the connection by the provider's own rules."""
        try:
            SparkSubmitHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            # The provider takes a missing connection for YARN, with no more than a line in the log. A connection in the
            # environment of this process is Airflow's own way to supply one.
            self.log.info("connection %s not found: the master is %s", self._conn_id, self.settings.master)
            stand_in = Connection(conn_id=self._conn_id, conn_type="spark", host=self.settings.master)
            os.environ[_variable(self._conn_id)] = stand_in.as_json()
        resolved = SparkSubmitHook(conn_id=self._conn_id, deploy_mode=self._deploy_mode)._connection
        if resolved["deploy_mode"] == "cluster":
            raise UserError(
                f"the connection {self._conn_id} sets deploy mode cluster, but these jobs require client mode",
                hint="remove deploy-mode from its extra: reports and errors come from a driver next to the"
                " task, and a standalone cluster cannot run Python in cluster mode",
            )
        return str(resolved["master"])

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook()
        # The provider's own looks in the output for names of pods and drivers, which it would delete when the task is
        # killed. That is for cluster deploy mode; in client mode landed values could name any.
        hook._process_spark_submit_log = self._log_output  # type: ignore[method-assign]
        hook._spark_exit_code = 0
        return hook

    def _log_output(self, itr: Iterable[str]) -> None:
        """Pass the job's output on to the task's log; keep its messages, and its last lines."""
        if isinstance(itr, io.TextIOWrapper):  # the hook's: one byte that is no text would end the task
            itr.reconfigure(errors="backslashreplace")
        for line in self._channel.lines(itr, self._take_message):
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
        """Kill the JVM and the Python that it started; the hook would leave the latter at work, holding the lock."""
        if self._client is not None:
            self._client.kill()
        if self._hook is None or self._hook._submit_sp is None:
            return
        try:
            children = psutil.Process(self._hook._submit_sp.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        super().on_kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()


def _describe_exit(code: int) -> str:
    """Words for an exit code that no job of ours ends with by itself; a shell says 128 and the signal."""
    if code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "was killed (SIGKILL), most often for lack of memory"
    return f"ended with exit code {code}"


def _variable(conn_id: str) -> str:
    """Variable by which Airflow takes a connection from the environment."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


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
