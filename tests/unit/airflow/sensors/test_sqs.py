"""Runs started by messages of a queue: real notifications of an S3 server to an SQS server."""

from __future__ import annotations

import asyncio
import os
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Any

import pytest

from sluicegate.airflow.sensors import sqs as sensors_sqs
from sluicegate.airflow.sensors import trigger as triggers
from sluicegate.errors import DefinitionError
from tests.conftest import Workspace
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import dag_of

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]


@pytest.fixture
def announced(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Workspace, Any]]:
    """A pipeline whose landing is a bucket that tells a queue of new objects, and a client of the bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("SLUICEGATE_LANDING", "s3://landing")
    s3 = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
    sqs = boto3.client("sqs", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
    s3.create_bucket(Bucket="landing")
    url = sqs.create_queue(QueueName="landing")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    told = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
    s3.put_bucket_notification_configuration(Bucket="landing", NotificationConfiguration=told)
    for folder in ("recordings", "patients"):
        s3.put_object(Bucket="landing", Key=f"{folder}/_first", Body=b"")
    workspace.edit("pipeline.yaml", "schedule:", f"trigger: file_arrival\nqueueUrl: {url}\nschedule:")
    workspace.edit("pipeline.yaml", "    format: json\n", "    format: json\n    settleSeconds: 0\n")
    yield workspace, s3
    reset = urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset).close()  # it keeps everything beyond its end
    server.stop()


def arrivals(workspace: Workspace, enough: int, *steps: Any, every: float = 0.05) -> tuple[list[Any], int]:
    """The first events of the watcher, with a step after each; and how often landing was looked at."""
    (asset,) = dag_of(workspace).timetable.asset_condition.objects
    (watcher,) = asset.watchers
    path, arguments = watcher.trigger.serialize()
    assert path.endswith(".FileArrivalTrigger")
    arguments["places"] |= {"landing": "s3://landing"}
    trigger = triggers.FileArrivalTrigger(**arguments | {"every": every})
    looks, look = [0], trigger._find

    def counted(said: Any) -> Any:
        looks[0] += 1
        return look(said)

    trigger._find = counted  # type: ignore[method-assign]

    async def watch() -> list[Any]:
        events: list[Any] = []
        waiting = [*steps]

        async def listen() -> None:
            async for event in trigger.run():
                events.append(event.payload)

        listening = asyncio.ensure_future(listen())
        end = time.monotonic() + 120
        while len(events) < enough and time.monotonic() < end:
            if waiting and looks[0] > 0 and len(events) == len(steps) - len(waiting):
                await asyncio.to_thread(waiting.pop(0))
            await asyncio.sleep(0.05)
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
        return events

    return asyncio.run(watch()), looks[0]


def test_a_message_is_followed_by_a_look(announced: tuple[Workspace, Any]) -> None:
    workspace, s3 = announced

    def land(name: str) -> Any:
        return lambda: s3.put_object(Bucket="landing", Key=f"recordings/{name}.json", Body=b"[]")

    events, looks = arrivals(workspace, 2, land("a"), land("b"))
    assert [event["recordings_bronze"]["files"] for event in events] == [1, 2]
    assert looks < 100  # and not every 0.05 seconds of a wait


def test_without_messages_landing_is_listed_all_the_same(
    announced: tuple[Workspace, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, s3 = announced
    s3.put_bucket_notification_configuration(Bucket="landing", NotificationConfiguration={})
    monkeypatch.setattr(triggers, "AT_LEAST_EVERY", 0.1)
    monkeypatch.setattr("sluicegate.airflow.sensors.sqs.LONG_POLL", 1)
    land = lambda: s3.put_object(Bucket="landing", Key="recordings/a.json", Body=b"[]")  # noqa: E731
    events, _ = arrivals(workspace, 1, land)
    assert events[0]["recordings_bronze"]["files"] == 1


@pytest.mark.parametrize("count", [9, 10, 11])
def test_messages_are_taken_out_AT_ONCE_at_a_time(announced: tuple[Workspace, Any], count: int) -> None:
    """As many as SQS gives; those that are left are there at the next look, and no message comes twice."""
    import boto3

    workspace, s3 = announced
    (asset,) = dag_of(workspace).timetable.asset_condition.objects
    url = boto3.client("sqs", region_name="us-east-1").list_queues()["QueueUrls"][0]
    assert asset.watchers
    listening = sensors_sqs.Queue(url, {})
    while first := listening.receive(0):
        listening.delete(first)
    for number in range(count):
        s3.put_object(Bucket="landing", Key=f"recordings/{number}.json", Body=b"[]")
    taken = []
    while receipts := listening.receive(0):
        taken.append(len(receipts))
        listening.delete(receipts)
    assert sum(taken) == count
    assert max(taken) == min(count, sensors_sqs.AT_ONCE)


def test_a_queue_that_is_away_is_no_trouble(announced: tuple[Workspace, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, s3 = announced
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    land = lambda: s3.put_object(Bucket="landing", Key="recordings/a.json", Body=b"[]")  # noqa: E731
    events, _ = arrivals(workspace, 1, land)
    assert events[0]["recordings_bronze"]["files"] == 1


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("trigger: file_arrival\nqueueUrl: landing", "landing"),
        ("queueUrl: https://sqs.example.com/1/landing", "trigger"),
    ],
)
def test_a_queue_that_makes_no_sense(workspace: Workspace, said: str, wrong: str) -> None:
    workspace.edit("pipeline.yaml", "schedule:", f"{said}\nschedule:")
    with pytest.raises(DefinitionError) as caught:
        workspace.definition  # noqa: B018
    assert wrong in caught.value.for_people()


def test_a_wait_for_messages_holds_up_no_other_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's triggerer has some six threads on two cores, and a wait for messages takes 20 seconds."""
    trigger = triggers.FileArrivalTrigger(pipeline="p", places={}, queue="https://sqs.example/p")
    waits, go_on = Event(), Event()

    def nothing_comes(_: Any) -> bool:
        waits.set()
        assert go_on.wait(60)
        return True

    monkeypatch.setattr(trigger, "_messages", nothing_comes)
    monkeypatch.setattr(trigger, "_settle_seconds", lambda: 0.0)

    async def another_check() -> int:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        resting = asyncio.ensure_future(trigger._wait_for_check(1.0, settling=False))
        while not waits.is_set():
            await asyncio.sleep(0.01)
        try:
            return await asyncio.wait_for(asyncio.to_thread(lambda: 7), 20)
        finally:
            go_on.set()
            await resting

    assert asyncio.run(another_check()) == 7


def test_one_client_listens_until_the_credentials_are_others(
    announced: tuple[Workspace, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, _ = announced
    (asset,) = dag_of(workspace).timetable.asset_condition.objects
    (watcher,) = asset.watchers
    trigger = triggers.FileArrivalTrigger(**watcher.trigger.serialize()[1])
    monkeypatch.setattr(sensors_sqs, "LONG_POLL", 0)
    found = []
    for said in ({}, {}, {"AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "secret"}):
        trigger._messages(said)
        assert trigger._listening is not None
        found.append(trigger._listening[1])
    assert found[0] is found[1]
    assert found[1] is not found[2]


def test_many_queues_share_what_boto3_knows_of_amazon(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a session for each, a triggerer with 200 of them would have 1.6 GB."""
    import boto3

    made: list[Any] = []

    class Session(boto3.Session):  # type: ignore[misc]
        def __init__(self) -> None:
            made.append(self)
            super().__init__()

    monkeypatch.setattr(boto3, "Session", Session)
    said = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    with ThreadPoolExecutor(8) as threads:
        queues = list(threads.map(lambda n: sensors_sqs.Queue(f"https://sqs.example/{n}", said), range(8)))
    assert len({id(queue._sqs) for queue in queues}) == 8
    assert len(made) <= 1
