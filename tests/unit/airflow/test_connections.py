"""A landing on S3 whose credentials nobody has but a connection of Airflow: a server that checks them, and no mocks."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from sluicegate.settings import Settings
from sluicegate.spark import configuration, java
from tests.conftest import Workspace
from tests.support.airflow_runs import context_of
from tests.unit.airflow.test_dag import airflow_home as airflow_home

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

BUCKET = "landing-zone"


@dataclass
class Server:
    """An S3 server with the keys of the one user who may look into it."""

    url: str
    key: str
    secret: str

    def connection(self, **other: Any) -> str:
        extra = {"endpoint_url": self.url, "region_name": "us-east-1"}
        return json.dumps({"conn_type": "aws", "login": self.key, "password": self.secret, "extra": extra} | other)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    import boto3
    import moto.settings
    from moto.server import ThreadedMotoServer

    threaded = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    threaded.start()
    host, port = threaded.get_host_and_port()
    url = f"http://{host}:{port}"
    nobody = {"endpoint_url": url, "region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
    s3, iam = boto3.client("s3", **nobody), boto3.client("iam", **nobody)
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="in/recordings/a.json", Body=b"[]")
    s3.put_object(Bucket=BUCKET, Key="in/patients/patients.csv", Body=b"mrn,name\n1,Ada\n")
    iam.create_user(UserName="sensor")
    allowed = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    iam.put_user_policy(UserName="sensor", PolicyName="looks", PolicyDocument=json.dumps(allowed))
    made = iam.create_access_key(UserName="sensor")["AccessKey"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moto.settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0.0)  # from now on keys are checked
        yield Server(url, made["AccessKeyId"], made["SecretAccessKey"])
    threaded.stop()


@pytest.fixture
def landed(server: Server, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Where things are, with files that settled on S3; the environment has nothing that opens it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("SLUICEGATE_STORE_CONN_ID", "landing")
    monkeypatch.setenv("AIRFLOW_CONN_LANDING", server.connection())
    for place in ("recordings", "patients"):
        workspace.edit(
            "pipeline.yaml", f"path: ${{landing}}/{place}", f"settleSeconds: 0\n    path: ${{landing}}/{place}"
        )
    return replace(workspace.settings, landing=f"s3a://{BUCKET}/in")


def task(settings: Settings, name: str) -> Any:
    from sluicegate.airflow.dag import medallion_dag

    return medallion_dag("heart_rate", settings).task_dict[name]


def look(settings: Settings) -> Any:
    sensor = task(settings, "wait_for_files")
    return sensor.execute(context_of(sensor))


def test_the_sensor_finds_files_by_the_connection_alone(landed: Settings) -> None:
    before = dict(os.environ)
    assert look(landed) == {"files": 2, "bytes": 17}
    assert dict(os.environ) == before


@pytest.mark.parametrize("wrong", [{"password": "wrong"}, {"login": "AKIAWRONG"}], ids=["secret", "key"])
def test_other_keys_open_nothing(
    landed: Settings, server: Server, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str]
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    monkeypatch.setenv("AIRFLOW_CONN_LANDING", server.connection(**wrong))
    with pytest.raises(AirflowFailException, match="cannot be listed"):
        look(landed)


def test_a_token_of_the_environment_is_not_mixed_with_the_connections_keys(
    landed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "another")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    assert look(landed) == {"files": 2, "bytes": 17}
    assert os.environ["AWS_SESSION_TOKEN"] == "another"


def test_the_triggerer_finds_them_and_keeps_them_from_other_waits(landed: Settings, server: Server) -> None:
    from sluicegate.airflow.sensors.trigger import LandedFilesTrigger

    places = landed.arguments
    trigger = LandedFilesTrigger(pipeline="heart_rate", places=places, tables=[], every=0.01)
    seen: list[bool] = []
    look = trigger._find

    def watched(said: dict[str, str]) -> Any:
        found = look(said)
        seen.append(any(server.secret in value for value in os.environ.values() if "conn_type" not in value))
        return found

    trigger._find = watched  # type: ignore[method-assign]
    event = asyncio.run(anext(trigger.run()))
    assert event.payload == {"found": {"files": 2, "bytes": 17}}
    assert seen == [False]


def test_a_job_gets_them_in_its_environment_and_nowhere_else(
    landed: Settings, server: Server, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "java", lambda: "/usr/bin/java")
    monkeypatch.setattr(java, "java_version", lambda _: "17")
    monkeypatch.setattr(configuration, "spark_conf", lambda _, **__: {})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    monkeypatch.delenv("AIRFLOW_CONN_LANDING")
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", server.connection())
    monkeypatch.setenv("SLUICEGATE_STORE_CONN_ID", "other")
    told, program = workspace.folder / "told", workspace.folder / "spark-submit"
    program.write_text(f'#!/bin/sh\necho "$@" > {told}\nenv | grep ^AWS_ | sort >> {told}\n')
    program.chmod(0o755)
    job = task(landed, "bronze")
    job.spark_binary = str(program)
    job.execute(context_of(job))
    arguments, *environment = told.read_text().splitlines()
    assert server.secret not in arguments
    assert environment == [
        f"AWS_ACCESS_KEY_ID={server.key}", "AWS_EC2_METADATA_DISABLED=true", f"AWS_ENDPOINT_URL={server.url}",
        f"AWS_ENDPOINT_URL_S3={server.url}", "AWS_REGION=us-east-1", f"AWS_SECRET_ACCESS_KEY={server.secret}",
    ]  # fmt: skip
    shown = json.dumps([getattr(job, field) for field in job.template_fields], default=str)
    assert server.secret not in shown
    assert server.key not in shown
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"conn_type": "google_cloud_platform"}, "is of type google_cloud_platform, but only aws is supported"),
        ({"extra": {"role_arn": "arn:aws:iam::1:role/x"}}, "role_arn, but only keys are supported"),
        (None, "Airflow has no connection landing"),
    ],
    ids=["type", "role", "none"],
)
def test_what_is_not_understood_is_a_sentence(
    landed: Settings, server: Server, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any] | None, told: str
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from sluicegate.airflow.sensors.trigger import LandedFilesTrigger

    if other is None:
        monkeypatch.delenv("AIRFLOW_CONN_LANDING")
    else:
        monkeypatch.setenv("AIRFLOW_CONN_LANDING", server.connection(**other))
    with pytest.raises(AirflowFailException, match=told):
        look(landed)
    places = landed.arguments
    event = asyncio.run(anext(LandedFilesTrigger(pipeline="heart_rate", places=places, tables=[], every=1).run()))
    assert told in event.payload["error"]
