"""Connections of the type ``spark_connect``: jobs of a task on a Spark Connect server, and the token that they show."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from sluicegate.errors import UserError
from sluicegate.private_folders import PrivateFolder
from sluicegate.settings import Settings
from sluicegate.spark import connect

# Id of the connection by which jobs that need a JVM of their own start one, where the task's own one is a server.
OWN_JVM = "sluicegate_own_jvm"

# Ids that need no connection: their jobs go to the master of the settings.
_OPTIONAL = ("spark_default", OWN_JVM)

# Parameters of an address that are not taken as the provider writes them.
OWN = (SparkConnectHook.PARAM_TOKEN, SparkConnectHook.PARAM_USE_SSL)

PLAINTEXT = "plaintext"
"""Extra of a connection that lets its token go over a network without TLS."""


@dataclass(frozen=True)
class ConnectServer:
    """A Spark Connect server, as a connection or the settings name it.

    Attributes:
        url: its address, without the token.
        token: what it asks for; empty where a file on this machine has it.
    """

    url: str
    token: str = field(default="", repr=False)

    @classmethod
    def from_connection(cls, conn_id: str, settings: Settings) -> ConnectServer | None:
        """The server of a connection, or of the settings where there is no such connection; None if it is none.

        Raises:
            UserError: there is no such connection, or it has no host, or one that is no address.
        """
        connection = find_connection(conn_id)
        if connection is None and settings.remote:
            return cls(settings.remote)
        if connection is None or connection.conn_type != SparkConnectHook.conn_type:
            return None
        if not connection.host:
            raise UserError(f"connection {conn_id} has no host", hint="set it to the host of the Spark Connect server")
        try:
            connection_url = SparkConnectHook(conn_id).get_connection_url()
        except ValueError as error:
            raise UserError(f"connection {conn_id} has an invalid server address", cause=str(error)) from None
        place, _, parameters = connection_url.partition("/;")
        named = [part.partition("=") for part in parameters.split(";") if part]
        passed_on = [f"{name}={value}" for name, _, value in named if name not in OWN]
        # The provider's form says that there is no TLS where nobody has thought of it.
        extra = connection.extra_dejson
        if extra.get(SparkConnectHook.PARAM_USE_SSL) or extra.get(PLAINTEXT):
            passed_on.append(f"{SparkConnectHook.PARAM_USE_SSL}={str(not extra.get(PLAINTEXT)).lower()}")
        tokens = [unquote(value) for name, _, value in named if name == SparkConnectHook.PARAM_TOKEN]
        url = ";".join([f"{place.rstrip('/')}/", *passed_on])
        return cls(url, "".join(tokens))

    @contextmanager
    def environment(self) -> Iterator[dict[str, str]]:
        """Variables of a job by which it finds the token: they name a file that this user alone can read.

        A program's environment can be read by others of the same user, and its command line by everybody.
        """
        if not self.token:
            yield {}
            return
        with PrivateFolder() as folder:
            file = folder / "token"
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
                opened.write(self.token)
            yield {connect.TOKEN_FILE: str(file)}


def find_connection(conn_id: str) -> Any:
    """Return a connection of Airflow; None where there is none of an id that needs none.

    Raises:
        UserError: there is no connection of another id, which may be misspelt.
    """
    try:
        return Connection.get(conn_id)
    except AirflowNotFoundException:
        if conn_id in _OPTIONAL:
            return None
    raise UserError(f"Airflow has no connection {conn_id} for Spark", hint="create it, or correct conn_id")
