"""Names of the JVM: each is asked for once, and a call is a call."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from py4j import protocol  # type: ignore[import-untyped]
from py4j.java_gateway import JVMView  # type: ignore[import-untyped]

from sluicegate.spark import warm_gateway

pytestmark = pytest.mark.unit


class Client:
    """Py4J's connection to a JVM in which each name is a class, and each member a function that returns 7."""

    converters = None
    gateway_property = SimpleNamespace(pool=None)

    def __init__(self) -> None:
        self.commands: list[str] = []

    def send_command(self, command: str) -> str:
        self.commands.append(command)
        lines = command.split("\n")
        if lines[0] == protocol.CALL_COMMAND_NAME.strip():
            return f"{protocol.SUCCESS}{protocol.INTEGER_TYPE}7"
        if lines[1] == protocol.REFL_GET_UNKNOWN_SUB_COMMAND_NAME.strip():
            return f"{protocol.SUCCESS_CLASS}{lines[2]}"
        return f"{protocol.SUCCESS}{protocol.METHOD_TYPE}"


def test_a_function_is_looked_up_once_and_called_each_time() -> None:
    client = Client()
    jvm = JVMView(client, "default", id="j")
    warm_gateway.keep_names(jvm)
    client.commands.clear()
    name = "org.apache.spark.sql.functions"
    assert [getattr(jvm, name).col("a"), getattr(jvm, name).col("b"), jvm.functions.lit(1)] == [7, 7, 7]
    kinds = [command[0] for command in client.commands]
    assert kinds == ["r", "c", "c", "r", "c"]


def test_a_name_that_is_not_kept_is_asked_for() -> None:
    client = Client()
    jvm = JVMView(client, "default", id="j")
    warm_gateway.keep_names(jvm)
    client.commands.clear()
    assert jvm.Other.made() == 7
    assert len(client.commands) == 3
