"""Jobs of tasks on a Spark Connect server, which is a script here that says what it was given."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sluicegate.channel import FILE
from sluicegate.errors import UserError
from sluicegate.flow.report import REPORT
from sluicegate.settings import Settings
from sluicegate.spark import connect
from tests.conftest import Workspace
from tests.support.airflow_runs import submitted_command
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import job_of, run, task_of
from tests.unit.airflow.test_dag import submit as submit

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

SECRET = "a token; with = signs"

SAYS = f"""
import json, os, pathlib, sys
file = pathlib.Path(os.environ["{connect.TOKEN_FILE}"])
print("a line for people", flush=True)
report = json.dumps({{
    "token": file.read_text(), "mode": oct(file.stat().st_mode & 0o777),
    "folder": oct(file.parent.stat().st_mode & 0o777),
    "url": os.environ["{connect.REMOTE}"], "file": str(file),
    "said": " ".join(sys.argv) + pathlib.Path("/proc/self/environ").read_text(),
    "pipeline": "heart_rate", "layer": "bronze", "tables": [],
}})
with open(os.environ["{FILE}"], "a") as channel:
    channel.write({REPORT!r} + " " + report + "\\n")
"""


def connection(monkeypatch: pytest.MonkeyPatch, **facts: Any) -> None:
    said = {"conn_type": "spark_connect", "host": "server.example", "port": 15002, **facts}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(said))


@pytest.fixture
def job(heartbeats: Workspace) -> Callable[[str], Any]:
    """Makes the job of bronze, for which there is work, of a script."""

    def make(script: str) -> Any:
        made = job_of(heartbeats)
        made.application = str(heartbeats.folder / "job.py")
        made.application_args = ["--pipeline", "heart_rate"]
        Path(made.application).write_text(script)
        return made

    return make


@pytest.mark.parametrize(
    ("facts", "url", "token"),
    [
        ({}, "sc://server.example:15002/", ""),
        ({"host": "sc://there", "port": None, "login": "ada"}, "sc://there/;user_id=ada", ""),
        ({"password": SECRET, "extra": {"use_ssl": False}}, "sc://server.example:15002/", SECRET),
        ({"password": SECRET, "extra": {"use_ssl": True}}, "sc://server.example:15002/;use_ssl=true", SECRET),
        ({"password": SECRET, "extra": {"plaintext": True}}, "sc://server.example:15002/;use_ssl=false", SECRET),
    ],
)
def test_the_address_of_a_connection_is_the_providers_without_the_token(
    facts: dict[str, Any], url: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluicegate.airflow.connect_server import ConnectServer

    connection(monkeypatch, **facts)
    server = ConnectServer.from_connection("spark_default", Settings.of(master="local[2]"))
    assert server == ConnectServer(url, token)
    assert SECRET not in repr(server)


def test_only_a_connection_of_that_type_is_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from sluicegate.airflow.connect_server import ConnectServer

    there = Settings.of(master="sc://there")
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    assert ConnectServer.from_connection("spark_default", there) == ConnectServer("sc://there")
    assert ConnectServer.from_connection("spark_default", Settings.of(master="local[2]")) is None
    with pytest.raises(UserError, match="nobody_made_it") as missing:
        ConnectServer.from_connection("nobody_made_it", there)
    assert missing.value.hint
    connection(monkeypatch, conn_type="spark", host="local[2]")
    assert ConnectServer.from_connection("spark_default", there) is None
    connection(monkeypatch, host="")
    with pytest.raises(UserError, match="has no host"):
        ConnectServer.from_connection("spark_default", there)
    connection(monkeypatch, host="sc://there/a/path")
    with pytest.raises(UserError, match="address"):
        ConnectServer.from_connection("spark_default", there)


def test_a_job_on_a_server_needs_no_java_and_shows_its_token_to_nobody(
    job: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection(monkeypatch, password=SECRET, extra={"plaintext": True})
    monkeypatch.setenv(connect.TOKEN, "another one")
    monkeypatch.setenv("PATH", "/nowhere")
    made = job(SAYS)
    made.env_vars = {"OF_THE_TASK": 7}
    told = run(made)
    assert "OF_THE_TASK=7" in told["said"]
    assert (told["token"], told["mode"], told["folder"]) == (SECRET, "0o600", "0o700")
    assert told["url"] == "sc://server.example:15002/;use_ssl=false"
    assert SECRET not in told["said"]
    assert connect.TOKEN not in told["said"]
    assert not Path(told["file"]).exists()
    assert SECRET not in str(made.conf) + str(made.application_args)


def test_a_job_on_a_server_that_fails_or_is_killed(job: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowException

    connection(monkeypatch)
    with pytest.raises(AirflowException, match="exit code 7; its last output:\n    out of memory"):
        run(job("import sys\nprint('out of memory')\nsys.exit(7)"))
    made = job("import time\ntime.sleep(60)")
    failed: list[Exception] = []

    def execute() -> None:
        try:
            run(made)
        except AirflowException as error:
            failed.append(error)

    thread = Thread(target=execute)
    thread.start()
    until = time.monotonic() + 30
    while made._process is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    made.on_kill()
    thread.join(timeout=30)
    assert "was killed (SIGKILL)" in str(failed[0])


def test_a_job_that_looks_into_its_jvm_has_one_beside_the_task(
    heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluicegate.spark import java

    connection(monkeypatch, password=SECRET)
    monkeypatch.setattr(java, "java", lambda: "/usr/bin/java")
    monkeypatch.setattr(java, "java_version", lambda _: "17")
    made = task_of(heartbeats, "bronze")
    made.layer = "verify"
    made.prepare(None)
    assert made._server is None
    command = submitted_command(made)
    assert command[command.index("--master") + 1] == "local[*]"
    assert SECRET not in str(command)


def test_a_job_by_spark_submit_does_not_find_the_address_of_a_server(
    submit: Callable[[str], Any], heartbeats: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = submit(f"env > {heartbeats.folder}/env")
    monkeypatch.setenv(connect.REMOTE, "sc://there")
    monkeypatch.setenv(connect.TOKEN, SECRET)
    run(made)
    text = (heartbeats.folder / "env").read_text()
    assert "PYSPARK_PYTHON=" in text
    assert not re.search(f"^({connect.REMOTE}|{connect.TOKEN}|AIRFLOW_CONN_SPARK_DEFAULT)=", text, re.MULTILINE)
    assert os.environ[connect.REMOTE] == "sc://there"
