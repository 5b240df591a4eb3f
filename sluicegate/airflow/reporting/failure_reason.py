"""Reason of a failed task in one sentence, which the run's note begins with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from sluicegate.airflow.reporting.task_alerts import FACTS, first_sentence

if TYPE_CHECKING:
    from airflow.sdk import Context

REASON = "failure"
"""Key under which a task that fails leaves its reason (XCom)."""

Execute = TypeVar("Execute", bound=Callable[..., Any])


def keep_failure_reason(execute: Execute) -> Execute:
    """Have a task that fails leave its reason for the note of the run, and fail as it did."""

    @wraps(execute)
    def execute_and_keep(task: Any, context: Context) -> Any:
        try:
            return execute(task, context)
        except AirflowSkipException:
            raise
        except AirflowException as error:
            with suppress(Exception):  # the error of the task is the one to show
                context["ti"].xcom_push(REASON, reason_of(error))
            raise

    return cast(Execute, execute_and_keep)


def reason_of(error: AirflowException) -> str:
    """Return the table and the message of an error of ours; of another one the first sentence."""
    facts = getattr(error, FACTS, {})
    message = str(facts.get("message") or first_sentence(str(error).strip() or type(error).__name__))
    table = facts.get("table")
    if table and table not in message:
        return f"{table}: {message}"
    return message
