"""A topic at the broker of the tests, and the pipeline that reads it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from sluicegate import _faults
from sluicegate.monitor import status
from tests.conftest import Workspace
from tests.support.kafka_broker import Client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BRONZE = """\
name: heart_rate
bronze:
  beats:
    format: kafka
    kafka: {{bootstrap_servers: '{server}', topic: {topic}{kafka}}}
{more}"""
OFFSET = ("_partition", "_offset")


class Killed(BaseException):
    """What stops a run at a point, as a kill would."""


def _kill() -> NoReturn:
    raise Killed


@contextlib.contextmanager
def at(name: str, time: int = 1, does: Callable[[], object] = _kill) -> Iterator[None]:
    """Lets something happen when a run comes to a point for the ``time``-th time: if nothing is given, it is killed."""
    left = [time]

    def point(reached: str) -> None:
        left[0] -= reached == name
        if reached == name and left[0] == 0:
            does()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_faults, "point", point)
        yield


class Topic:
    """A topic of its own, and a pipeline that reads it."""

    def __init__(self, spark: SparkSession, workspace: Workspace, client: Client, name: str) -> None:
        self.spark, self.workspace, self.client, self.name = spark, workspace, client, name

    def define(self, more: str = "", kafka: str = "", server: str = "") -> None:
        """Writes the definition, with further lines of the table and fields of its source."""
        server = server or self.client.server
        self.workspace.define(BRONZE.format(server=server, topic=self.name, more=more, kafka=kafka))

    def send(self, *values: Any, partition: int = 0) -> None:
        """Writes values, texts as they are."""
        texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        self.client.send_values(self.name, texts, partition)

    def run(self, *layers: str) -> Any:
        """Runs bronze, or several layers; gives the report of ``beats``, or of ``s``."""
        return self.workspace.run(self.spark, *(layers or ("bronze",)))["beats" if not layers else "s"]

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Rows by partition and offset."""
        found = sorted(self.workspace.rows("beats", *OFFSET, *columns))
        return [row[2:] for row in found] if columns else found

    def files(self) -> list[tuple[str, str, int]]:
        """State, range and rows of each range of the ledger."""
        entries = status.files("beats", self.workspace.definition, self.workspace.settings).to_pylist()
        return [(e["state"], e["path"].removeprefix(f"kafka://{self.name}/"), e["rows"]) for e in entries]

    def verified(self) -> list[str]:
        """What is not right."""
        return status.verify(self.workspace.definition, self.workspace.settings)
