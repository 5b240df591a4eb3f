"""Programs that a task runs by spark-submit in client mode, at the master of an Airflow connection."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk import BaseOperator

from sluicegate.airflow.connect_server import find_connection
from sluicegate.errors import UserError
from sluicegate.private_folders import PrivateFolder


@dataclass(frozen=True)
class SparkConnection:
    """A Spark master, as a connection of Airflow's type ``spark`` names it.

    Attributes:
        master: the master.
        extra: ``queue``, ``deploy-mode``, ``namespace``, ``principal`` and ``keytab`` (base64) are used.
    """

    master: str
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_airflow(cls, conn_id: str, master: str) -> SparkConnection:
        """Return a connection; one with the given master where Airflow has none by default.

        Raises:
            UserError: there is no connection of an id that somebody chose.
        """
        connection = find_connection(conn_id)
        if connection is None:
            return cls(master)
        host = connection.host or ""
        # The form of a connection has the whole master as its host; a URI has the scheme as its type.
        if connection.conn_type != "spark" or not host or ("://" not in host and connection.port):
            host = f"{connection.conn_type}://{host}"
        if connection.port:
            host = f"{host}:{connection.port}"
        return cls(host, connection.extra_dejson)

    @contextmanager
    def keytab(self) -> Iterator[str]:
        """Context with the path of the connection's keytab, in a file of this user alone; empty without one."""
        text = self.extra.get("keytab")
        if not text:
            yield ""
            return
        try:
            content = base64.b64decode("".join(str(text).split()), validate=True)
        except ValueError:
            raise UserError("the keytab of the Spark connection is not base64") from None
        with PrivateFolder() as folder:
            file = folder / "keytab"
            file.touch(0o600)
            file.write_bytes(content)
            yield str(file)


class SparkSubmission(BaseOperator):
    """Base of operators that run a program by spark-submit, with the options of that command as parameters.

    Args:
        application: the program.
        application_args: its arguments.
        name: name of the application in Spark.
        conf: settings of Spark.
        conn_id: connection of type ``spark`` or ``spark_connect``.
        env_vars: variables of the program's environment, and on YARN of its application master.
        spark_binary: path of spark-submit; by default that of this Python's Spark.
        deploy_mode: deploy mode, by default that of the connection: only ``client`` is supported.
        yarn_queue: queue of YARN, by default that of the connection.
        use_krb5ccache: whether Spark renews Kerberos tickets of the cache that ``KRB5CCNAME`` names.
        verbose: whether spark-submit prints what it was given.
        openlineage_inject_parent_job_info: whether Spark's OpenLineage listener is told of the task; by default as
            Airflow's configuration says.
        openlineage_inject_transport_info: whether it is told where to report, with the same default.
        kwargs: what every operator takes.

    The other parameters are options of spark-submit.
    """

    template_fields: Sequence[str] = ("application", "application_args", "name", "conf", "env_vars", "options")

    def __init__(
        self,
        *,
        application: str = "",
        application_args: Sequence[str] = (),
        name: str = "",
        conf: Mapping[str, str] | None = None,
        conn_id: str = "spark_default",
        env_vars: Mapping[str, str] | None = None,
        spark_binary: str | None = None,
        deploy_mode: str | None = None,
        yarn_queue: str | None = None,
        use_krb5ccache: bool = False,
        verbose: bool = False,
        properties_file: str | None = None,
        files: str | None = None,
        py_files: str | None = None,
        archives: str | None = None,
        driver_class_path: str | None = None,
        jars: str | None = None,
        packages: str | None = None,
        exclude_packages: str | None = None,
        repositories: str | None = None,
        num_executors: int | None = None,
        total_executor_cores: int | None = None,
        executor_cores: int | None = None,
        executor_memory: str | None = None,
        driver_memory: str | None = None,
        keytab: str | None = None,
        principal: str | None = None,
        proxy_user: str | None = None,
        openlineage_inject_parent_job_info: bool | None = None,
        openlineage_inject_transport_info: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.application_args = list(application_args)
        self.name = name
        self.conf = dict(conf or {})
        self.conn_id = conn_id
        self.env_vars = dict(env_vars or {})
        self.spark_binary = spark_binary
        self.deploy_mode = deploy_mode
        self.yarn_queue = yarn_queue
        self.use_krb5ccache = use_krb5ccache
        self.verbose = verbose
        self.openlineage_inject_parent_job_info = openlineage_inject_parent_job_info
        self.openlineage_inject_transport_info = openlineage_inject_transport_info
        options = {
            "properties-file": properties_file, "files": files, "py-files": py_files, "archives": archives,
            "driver-class-path": driver_class_path, "jars": jars, "packages": packages,
            "exclude-packages": exclude_packages, "repositories": repositories, "num-executors": num_executors,
            "total-executor-cores": total_executor_cores, "executor-cores": executor_cores,
            "executor-memory": executor_memory, "driver-memory": driver_memory, "keytab": keytab,
            "principal": principal, "proxy-user": proxy_user,
        }  # fmt: skip
        self.options = {option: str(value) for option, value in options.items() if value}

    def spark_submit_command(self, connection: SparkConnection, keytab: str) -> list[str]:
        """Build the command.

        Args:
            connection: where it goes.
            keytab: path of the connection's keytab; empty without one.

        Raises:
            UserError: the deploy mode is ``cluster``, or the ticket cache has no name.
        """
        deploy_mode = self.deploy_mode or connection.extra.get("deploy-mode")
        if deploy_mode == "cluster":
            raise UserError(
                f"the connection {self.conn_id} sets deploy mode cluster, but these jobs require client mode",
                hint="remove deploy-mode from its extra: reports and errors come from a driver next to the"
                " task, and a standalone cluster cannot run Python in cluster mode",
            )
        options = {
            "keytab": keytab, "principal": connection.extra.get("principal"), **self.options, "name": self.name,
            "queue": self.yarn_queue or connection.extra.get("queue"), "deploy-mode": deploy_mode,
        }  # fmt: skip
        command = [self.spark_binary or "spark-submit", "--master", connection.master]
        for setting, value in (self._settings_of_place(connection) | self.conf).items():
            command += ["--conf", f"{setting}={value}"]
        for option, argument in options.items():
            if argument:
                command += [f"--{option}", argument]
        if self.verbose:
            command.append("--verbose")
        return [*command, self.application, *map(str, self.application_args)]

    def _settings_of_place(self, connection: SparkConnection) -> dict[str, str]:
        """Settings that a cluster takes in place of variables (YARN), of a namespace and of Kerberos."""
        settings: dict[str, str] = {}
        if connection.master.startswith("yarn"):
            settings |= {f"spark.yarn.appMasterEnv.{name}": value for name, value in self.env_vars.items()}
        namespace = connection.extra.get("namespace")
        if namespace and connection.master.startswith("k8s"):
            settings["spark.kubernetes.namespace"] = namespace
        if self.use_krb5ccache:
            if not os.environ.get("KRB5CCNAME"):
                raise UserError("use_krb5ccache requires the variable KRB5CCNAME in Airflow's workers")
            settings["spark.kerberos.renewal.credentials"] = "ccache"
        return settings
