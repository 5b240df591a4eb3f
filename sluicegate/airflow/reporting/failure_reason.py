"""Reason of a failed task in one sentence, which the run's note begins with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow.sdk.exceptions import (
    AirflowException,
    AirflowRescheduleException,
    AirflowSkipException,
    AirflowTaskTimeout,
)

from sluicegate.airflow.reporting.task_alerts import FACTS, first_sentence

if TYPE_CHECKING:
    from airflow.sdk import Context

REASON = "failure"
"""Key under which a task that fails leaves its reason (XCom)."""

Execute = TypeVar("Execute", bound=Callable[..., Any])


def keep_failure_reason(execute: Execute) -> Execute:
    """Have a task that fails leave its reason for the note of the run, and fail as it did."""

    @wraps(execute)
    def execute_and_keep(task: Any, context: Context, **more: Any) -> Any:
        try:
            return execute(task, context, **more)
        except (AirflowSkipException, AirflowRescheduleException):
            raise
        except (Exception, AirflowTaskTimeout) as error:
            with suppress(Exception):  # the error of the task is the one to show
                context["ti"].xcom_push(REASON, reason_of(error))
            raise

    return cast(Execute, execute_and_keep)


def reason_of(error: BaseException) -> str:
    """Return the table and the message of an error of ours, or the first sentence of one of Airflow's.

    Of any other only its type: its text may quote values.
    """
    if not isinstance(error, AirflowException):
        return f"{type(error).__name__}; the log of the task has more"
    facts = getattr(error, FACTS, {})
    message = str(facts.get("message") or first_sentence(str(error).strip() or type(error).__name__))
    table = facts.get("table")
    if table and table not in message:
        return f"{table}: {message}"
    return message
