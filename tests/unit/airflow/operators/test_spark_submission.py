"""Commands of spark-submit, as connections and the arguments of a task make them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from sluicegate.errors import UserError
from tests.support.airflow_runs import submitted_command
from tests.unit.airflow.test_dag import airflow_home as airflow_home

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]


def submission(**arguments: Any) -> Any:
    from sluicegate.airflow.operators.spark_submission import SparkSubmission

    class Task(SparkSubmission):
        """One that says where its master is, as a job does."""

        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.settings = type("Settings", (), {"master": "local[*]"})

    return Task(task_id="task", application="/job.py", name="shop.bronze", **arguments)


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        ("", "local[*]"),
        ('{"conn_type": "spark", "host": "local[4]"}', "local[4]"),
        ('{"conn_type": "spark", "host": "yarn"}', "yarn"),
        ('{"conn_type": "spark", "host": "spark://master", "port": 7077}', "spark://master:7077"),
        ('{"conn_type": "spark", "host": "master", "port": 7077}', "spark://master:7077"),
        ("spark://master:7077", "spark://master:7077"),
        ('{"conn_type": "spark", "host": "k8s://https://kubernetes.svc", "port": 443}', "k8s://https://kubernetes.svc:443"),
        ("k8s://kubernetes.svc:443", "k8s://kubernetes.svc:443"),
    ],
)  # fmt: skip
def test_a_connection_names_the_master(connection: str, master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    if not connection:
        monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    assert submitted_command(submission()) == [
        "spark-submit", "--master", master, "--name", "shop.bronze", "/job.py"
    ]  # fmt: skip


def test_arguments_are_options_and_come_before_those_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"queue": "etl", "principal": "of the connection", "deploy-mode": "client"}
    monkeypatch.setenv("AIRFLOW_CONN_YARN", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))
    monkeypatch.setenv("KRB5CCNAME", "/tickets")
    task = submission(
        conn_id="yarn", conf={"spark.a": "1"}, env_vars={"X": "y"}, executor_cores=4, driver_memory="2g",
        py_files="a.zip", principal="of the task", use_krb5ccache=True, verbose=True, application_args=["--lake", 1],
        spark_binary="/spark/bin/spark-submit",
    )  # fmt: skip
    command = submitted_command(task)
    assert command[0] == "/spark/bin/spark-submit"
    assert command[-3:] == ["/job.py", "--lake", "1"]
    pairs = set(zip(command[1:-4:2], command[2:-4:2], strict=True))
    assert command[-4] == "--verbose"
    assert pairs == {
        ("--master", "yarn"), ("--conf", "spark.a=1"), ("--conf", "spark.yarn.appMasterEnv.X=y"),
        ("--conf", "spark.kerberos.renewal.credentials=ccache"), ("--executor-cores", "4"), ("--driver-memory", "2g"),
        ("--py-files", "a.zip"), ("--principal", "of the task"), ("--name", "shop.bronze"), ("--queue", "etl"),
        ("--deploy-mode", "client"),
    }  # fmt: skip
    monkeypatch.setenv("AIRFLOW_CONN_YARN", json.dumps({"conn_type": "spark", "host": "k8s://there"}))
    assert not any("=y" in word for word in submitted_command(task)), "a driver beside the task has its environment"
    monkeypatch.delenv("KRB5CCNAME")
    with pytest.raises(UserError, match="KRB5CCNAME"):
        submitted_command(task)


def test_a_namespace_is_of_kubernetes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for host, told in (("k8s://https://there", True), ("local[2]", False), ("spark://k8s.example:7077", False)):
        said = {"conn_type": "spark", "host": host, "extra": {"namespace": "etl"}}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(said))
        assert ("spark.kubernetes.namespace=etl" in submitted_command(submission())) is told
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(said | {"host": "k8s://there"}))
    own = submission(conf={"spark.kubernetes.namespace": "own"})
    assert "spark.kubernetes.namespace=own" in submitted_command(own)
    assert "spark.kubernetes.namespace=etl" not in submitted_command(own)


def test_a_keytab_is_in_a_file_of_this_user_while_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from sluicegate.airflow.operators.spark_submission import SparkConnection

    content = b"\x05\x02 keys"
    said = {"conn_type": "spark", "host": "yarn", "extra": {"keytab": base64.b64encode(content).decode()}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(said))
    connection = SparkConnection.from_airflow("spark_default", "local[*]")
    assert said["extra"]["keytab"] not in repr(connection)  # type: ignore[index]
    with connection.keytab() as path:
        file = Path(path)
        assert file.read_bytes() == content
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        command = submission().spark_submit_command(connection, path)
        assert command[command.index("--keytab") + 1] == path
    assert not file.exists()
    lines = base64.encodebytes(content * 20).decode().replace("\n", "\r\n")  # as programs of a shell write it
    assert "\n" in lines.strip()
    with SparkConnection("yarn", {"keytab": lines}).keytab() as path:
        assert Path(path).read_bytes() == content * 20
    for text in ("no!", "grün", 7):
        with pytest.raises(UserError, match="base64"), SparkConnection("yarn", {"keytab": text}).keytab():
            pass


def test_a_connection_that_somebody_chose_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job with a misspelt one would run on the task's own machine."""
    with pytest.raises(UserError, match="misspelt") as missing:
        submitted_command(submission(conn_id="misspelt"))
    assert missing.value.hint
