"""Credentials of the object store that files land on and tables are on, from one Airflow connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from sluicegate.errors import UserError

if TYPE_CHECKING:
    from airflow.sdk import Context

Execute = TypeVar("Execute", bound=Callable[..., Any])

# Extras by which a connection asks for a role or a profile: only boto3 understands them.
ROLES = ("role_arn", "profile_name", "assume_role_method")


def provide_store(execute: Execute) -> Execute:
    """Let a task, and the job that it starts, find the store's credentials in the environment while it works.

    The task is a process of its own. They are on no command line, and in nothing that Airflow shows of a task.
    """

    @wraps(execute)
    def execute_with_store(task: Any, context: Context) -> Any:
        try:
            variables = _task_variables()
        except UserError as error:
            raise AirflowFailException(error.for_people()) from None
        with environment(variables):
            return execute(task, context)

    return cast(Execute, execute_with_store)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Context with changed environment variables; an empty value unsets one."""
    before = {name: os.environ.pop(name, "") for name in variables}
    os.environ.update({name: value for name, value in variables.items() if value})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value else {})


def _conn_id() -> str:
    """Id of the connection, from the environment of Airflow's processes; empty if there is none."""
    return os.environ.get("SLUICEGATE_STORE_CONN_ID", "")


def _task_variables() -> dict[str, str]:
    """Environment variables for the connection; empty without one."""
    if not (conn_id := _conn_id()):
        return {}
    with _absence_explained(conn_id):
        connection = Connection.get(conn_id)
    return variables(connection, connection.extra_dejson)


async def triggerer_variables() -> dict[str, str]:
    """Environment variables for the connection in the triggerer, where all triggers share one process and environment.

    Raises:
        UserError: there is no such connection, or it asks for more than keys.
    """
    if not (conn_id := _conn_id()):
        return {}
    with _absence_explained(conn_id):
        connection = await Connection.async_get(conn_id)
    return variables(connection, await connection.aextra_dejson())


def server_variables() -> dict[str, str]:
    """Environment variables for the connection in the API server, which many requests share as well.

    Raises:
        UserError: there is no such connection, or it asks for more than keys.
    """
    if not (conn_id := _conn_id()):
        return {}
    from airflow.models.connection import Connection as Stored  # a server has the database itself, and tasks do not

    with _absence_explained(conn_id):
        connection = Stored.get_connection_from_secrets(conn_id)
    return variables(connection, connection.extra_dejson)


@contextmanager
def _absence_explained(conn_id: str) -> Iterator[None]:
    """Context in which a connection that Airflow does not have is the user's mistake."""
    try:
        yield
    except AirflowNotFoundException:
        sentence = f"Airflow has no connection {conn_id} for the store of landing and lake"
        raise UserError(sentence, hint="create it, or choose another one with SLUICEGATE_STORE_CONN_ID") from None


def variables(connection: Any, extra: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables of an ``aws`` connection, as AWS programs and Spark read them.

    Args:
        connection: of type ``aws``: the keys are its login and password.
        extra: its extra: ``region_name``, ``endpoint_url`` and ``aws_session_token`` are used.

    Raises:
        UserError: it is of another type, or asks for more than keys.
    """
    if connection.conn_type != "aws":
        raise UserError(
            f"connection {connection.conn_id} is of type {connection.conn_type}, but only aws is supported",
            hint="pass credentials of other stores in the environment of Airflow's processes",
        )
    if roles := [name for name in ROLES if extra.get(name)]:
        raise UserError(
            f"connection {connection.conn_id} sets {' and '.join(roles)}, but only keys are supported",
            hint="give Airflow's processes the role or the profile itself (AWS_PROFILE, or the machine's role)",
        )
    service = (extra.get("service_config") or {}).get("s3") or {}
    values: dict[str, str] = {}
    if endpoint := service.get("endpoint_url") or extra.get("endpoint_url"):
        values |= {"AWS_ENDPOINT_URL_S3": endpoint, "AWS_ENDPOINT_URL": endpoint}  # Spark reads the latter
    if region := extra.get("region_name"):
        values["AWS_REGION"] = region
    if connection.login:
        values |= {"AWS_ACCESS_KEY_ID": connection.login, "AWS_SECRET_ACCESS_KEY": connection.password or ""}
        # Empty rather than unset: a token of the environment belongs to other keys.
        values["AWS_SESSION_TOKEN"] = extra.get("aws_session_token") or ""
    return values
